"""The time between marks: on a CUDA stream by events, which no step waits for, or on the host."""

import time
from typing import Any, List, Optional, Union

import torch

_POLL_S = 20e-6


def is_captured() -> bool:
    """Whether a CUDA graph is being captured.  Nothing runs then, so nothing has a time; asking an
    event for its time would end the capture."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


class Marks:
    """Time on the current CUDA stream from the first mark to the second, plus third to fourth.

        marks = moetune.torch.Marks()    # before the step, and the first mark
        ...
        marks.add()                      # after it
        tuner.tell(marks)                # the host goes on; the time counts once the device has passed
    """

    def __init__(self) -> None:
        self._events: List[Any] = []
        self._count = 0
        self.add()

    def __len__(self) -> int:
        return self._count

    def add(self) -> None:
        self._count += 1
        if not is_captured():  # else us() has none
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)

    def is_passed(self) -> bool:
        return all(event.query() for event in self._events)

    def us(self) -> Optional[float]:
        """The microseconds, once is_passed(); None: there is no time."""
        events = self._events
        if len(events) != self._count or self._count % 2:
            return None
        return 1e3 * sum(float(a.elapsed_time(b)) for a, b in zip(events[::2], events[1::2])) or None


class HostMarks:
    """Marks by the host's clock."""

    def __init__(self) -> None:
        self._times = [time.perf_counter()]

    def __len__(self) -> int:
        return len(self._times)

    def add(self) -> None:
        self._times.append(time.perf_counter())

    def is_passed(self) -> bool:
        return True

    def us(self) -> Optional[float]:
        times = self._times
        return 1e6 * sum(end - begin for begin, end in zip(times[::2], times[1::2])) or None


def waited_us(marks: Union[Marks, HostMarks]) -> Optional[float]:
    """us(), after waiting for the last mark; later work on the device continues meanwhile."""
    while not marks.is_passed():
        time.sleep(_POLL_S)
    return marks.us()
