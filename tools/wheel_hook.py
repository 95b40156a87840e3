"""Puts compiled code into a wheel, if `tools.dist` asks for it: a hook of hatchling, the build backend."""

import os
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds the folder that THINSTREAM_COMPILED names, and the tags of this Python and platform."""

    def initialize(self, version, build_data):
        """Add files and tags before the wheel is built."""
        folder = os.environ.get("THINSTREAM_COMPILED")
        if folder and self.target_name == "wheel":
            python = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["force_include"][folder] = "thinstream/compiled"
            build_data["pure_python"] = False
            build_data["tag"] = f"{python}-{python}{sys.abiflags}-{platform()}"


def platform():
    """Return the platform tag. Object code is not linked with the C library, so any version of it will do."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if name.startswith("linux_"):
        return name.replace("linux_", "manylinux_2_17_")
    if name.startswith("macosx_"):
        return f"macosx_11_0_{name.rpartition('_')[2] if 'arm64' in name else 'x86_64'}"
    return name
