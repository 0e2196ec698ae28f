"""Times calls that use PyTorch's threads."""
import statistics
import time

import torch


def time_calls(run, seconds):
    """Median and smallest milliseconds of a call: of this process's processor time where one thread works."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = []
    run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = clock()
        run()
        times.append(clock() - start)
    return 1e3 * statistics.median(times), 1e3 * min(times)
