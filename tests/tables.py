"""The kernel tables, and which of them this processor has (from /proc/cpuinfo: not by asking the code
under test). As a program it prints the names of those it has; on stderr those it lacks."""
import re
import sys

NEEDS = {
    "ref": set(),
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"},
}


def available():
    with open("/proc/cpuinfo") as info:
        flags = re.search(r"^flags\s*:(.*)$", info.read(), re.M)
    has = set(flags.group(1).split()) if flags else set()
    return [name for name, needs in NEEDS.items() if needs <= has]


if __name__ == "__main__":
    print(*available())
    for name in NEEDS:
        if name not in available():
            print(f"not run: {name}", file=sys.stderr)
