"""What a number in a task's specification may be; one that lies outside makes the specification `bad_spec`.

A limit that no jail can be given (negative, or beyond what the system counts) would look like trouble of the
surroundings, and its trajectories would wait for a better day for ever. The ranges are those of recipe options.
"""

from typing import Annotated

import msgspec

from tasks.bounds import BOUNDS

Seconds = Annotated[float, msgspec.Meta(ge=BOUNDS["timeout_s"][0], le=BOUNDS["timeout_s"][1])]
Megabytes = Annotated[int, msgspec.Meta(ge=int(BOUNDS["memory_mb"][0]), le=int(BOUNDS["memory_mb"][1]))]
Tolerance = Annotated[float, msgspec.Meta(ge=0.0)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
# Sums of many stay finite.
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
