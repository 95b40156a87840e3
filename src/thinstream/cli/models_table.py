"""What ``thinstream models`` shows."""

import time
from typing import Any

from thinstream.cli.terminal import printable
from thinstream.evaluate.showing import percent


def show_listed(found: dict[str, Any]) -> None:
    """Models, each with its versions and challengers."""
    for name, each in found.items():
        print(printable(f"{name} answers with version {each['version']}"))
        if each["versions"]:
            print(f"  {'version':>12}  {'kept':<19}  {'rows':>12}  {'error %':>8}  {'non-zeros':>10}  why")
        for one in each["versions"]:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"]))
            print(
                f"  {one['version']:>12}  {when}  {_whole(one['rows']):>12}  {_share(one['error']):>8}  "
                f"{_whole(one['nnz']):>10}  {one['cause']}"
            )
        if each["challengers"]:
            print(
                f"  {'challenger':<24}  {'rows':>12}  {'error %':>8}  {'champion %':>10}  {'AUC':>7}  {'champion':>8}"
            )
        for one in each["challengers"]:
            own, champion = one["progressive"], one["champion"]
            print(
                printable(
                    f"  {one['name'] + ' (' + one['algorithm'] + ')':<24}  {_whole(own.get('rows', 0)):>12}  "
                    f"{_share(own.get('error')):>8}  {_share(champion.get('error')):>10}  "
                    f"{_number(own.get('auc')):>7}  {_number(champion.get('auc')):>8}"
                    + (f"  out: {one['out']}" if one["out"] else "")
                )
            )


def show_version(found: dict[str, Any]) -> None:
    """What is known of a version."""
    for name, value in {**found["about"], **found["parameters"]}.items():
        print(printable(f"{name:<12} {value}"))


def show_compared(found: dict[str, Any]) -> None:
    """Two versions, and the weights that differ most."""
    one, other = found["versions"]
    print(f"versions {one} and {other}: {found['changed']:,} weights differ, by {found['distance']:.6g} together")
    print(f"{'non-zeros':<12} {found['non_zeros'][0]:,} and {found['non_zeros'][1]:,}")
    print(f"{'appeared':<12} {found['appeared']:,}, {found['gone']:,} went")
    print(f"{'cosine':<12} {_number(found['cosine'])}")
    if found["most"]:
        print(f"\n{'feature':<40} {'from':>14} {'to':>14}")
    for each in found["most"]:
        print(printable(f"{each['feature']:<40} {each['from']:>14.6g} {each['to']:>14.6g}"))


def show_changed(action: str, found: dict[str, Any]) -> None:
    """What a change has done."""
    did = {
        "keep": "is kept as version {kept}",
        "rollback": "went back to version {version}; what it was is version {kept}",
        "challenge": "is challenged by {name}",
        "promote": "gave way to {name}; what it was is version {kept}",
        "withdraw": "is challenged by {name} no more",
    }[action]
    later = "" if found["done"] else " (it is on disk, and happens once all before it is learned)"
    print(printable(f"{found['model']} {did.format(**found)}{later}; it answers with version {found['answers_with']}"))


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
