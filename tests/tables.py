"""The kernel tables, and which of them this processor has (from /proc/cpuinfo: not by asking the code
under test). As a program it prints the names of those it has; on stderr those it lacks. ATTN_TEST_TABLES names them
instead where tests run on an emulated processor, or take too long for all."""
import os
import re
import sys

NEEDS = {
    "ref": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"},
    "amx": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "fma", "f16c", "amx_tile", "amx_bf16"},
}
# Tables that run without their instructions, slowly: for a selection of the tests.
EMULATED = {"amx": {"avx2", "fma", "f16c"}}


def flags():
    with open("/proc/cpuinfo") as info:
        line = re.search(r"^flags\s*:(.*)$", info.read(), re.M)
    return set(line.group(1).split()) if line else set()


def available():
    if os.environ.get("ATTN_TEST_TABLES"):
        return os.environ["ATTN_TEST_TABLES"].split()
    has = flags()
    return [name for name, needs in NEEDS.items() if needs <= has]


def emulated():
    """Those that this processor lacks and that can be asked for all the same."""
    if os.environ.get("ATTN_TEST_TABLES"):
        return []
    has = flags()
    return [name for name, needs in EMULATED.items() if needs <= has and not NEEDS[name] <= has]


def share(seeds):
    """All of these seeds, or one of ATTN_TEST_SHARE where each takes a hundred times as long."""
    return seeds[:: int(os.environ.get("ATTN_TEST_SHARE", "1"))]


if __name__ == "__main__":
    print(*(emulated() if sys.argv[1:] == ["emulated"] else available()))
    for name in NEEDS:
        if name not in available() and len(sys.argv) == 1:
            print(f"{'only in part, emulated' if name in emulated() else 'not run'}: {name}", file=sys.stderr)
