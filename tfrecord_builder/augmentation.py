"""stand-in"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Variant:
    pass
