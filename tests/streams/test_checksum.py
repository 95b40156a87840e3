"""The checksum is what it says, in every process, compiled or not, and sees every small change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thinstream.streams.cache.checksum import checksum

MASK = 2**64 - 1
A, B, C, D = 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1
LAST = 0x510E527FADE682D1


def mixed(h, word, odd):
    h = (h ^ word) * odd & MASK
    return h ^ (h >> 32)


def naive(data, seed=0):
    words = [int.from_bytes(data[k : k + 8], "little") for k in range(0, len(data) - len(data) % 8, 8)]
    odds, lanes = [A, B, C, D], [seed ^ D, seed ^ C, seed ^ B, seed ^ A]
    for k, word in enumerate(words):
        lane = k % 4 if k < len(words) - len(words) % 4 else 0
        lanes[lane] = mixed(lanes[lane], word, odds[lane])
    found = lanes[0]
    for lane in lanes[1:]:
        found = mixed(found, lane, LAST)
    tail = int.from_bytes(data[len(data) - len(data) % 8 :], "little")
    return mixed(mixed(found, tail, LAST), len(data), LAST)


@given(st.binary(max_size=100), st.integers(0, MASK))
def test_equals_its_definition(data, seed):
    assert checksum(data, seed) == naive(data, seed)


def test_golden():
    assert checksum(b"") == 0x278B06C60F08B031
    assert checksum(b"hello world, this is a check") == 0xAF973D6DDFE7F7C8


def test_unaligned_and_read_only_memory():
    data = np.arange(100, dtype=np.uint8)
    data.setflags(write=False)
    assert checksum(data[3:77]) == checksum(data[3:77].tobytes()) == naive(data[3:77].tobytes())


def test_every_pair_of_flipped_bits_is_seen():
    data = np.random.default_rng(0).integers(0, 256, 80, dtype=np.uint8)
    seen = {checksum(data)}
    bits = 8 * len(data)
    for first in range(0, bits, 3):
        for second in range(first, bits, 7):  # equal: one flip
            other = data.copy()
            other[first // 8] ^= 1 << first % 8
            if second != first:
                other[second // 8] ^= 1 << second % 8
            found = checksum(other)
            assert found not in seen
            seen.add(found)


def test_zeros_at_the_end_count():
    assert len({checksum(bytes(n)) for n in range(50)}) == 50
