"""A daemon of which chosen system calls fail, or end it, by `strace --inject`."""
import os

from conftest import Daemon, clean_environment


class Failing(Daemon):
    """inject: as strace has it, such as "unlinkat:error=EPERM:when=1", where each thread counts for itself. paths: only calls
    with one of these arguments count. threads: False leaves all threads but the first alone."""

    def __init__(self, inject, *args, paths=(), threads=True):
        chosen = [word for path in paths for word in ("-P", str(path))] + ["-f"] * threads
        self.prefix = ("strace", "-D", "-q", "-o", "/dev/null", *chosen, "-e", f"trace={inject.split(':')[0]}",
                       "-e", f"inject={inject}")
        no_leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # LeakSanitizer cannot run under strace
        super().__init__("--ops-listen", "", *map(str, args), env=clean_environment({"ASAN_OPTIONS": no_leaks}))
