"""What serves it: a container of one of the families (`loadproof.families`), told apart by the word `family`."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from loadproof.families import FAMILIES

if TYPE_CHECKING:
    from loadproof.families import Container as Container

    Family = str
else:  # the families are found when this is read, so their union and their names are made here
    Container = Annotated[
        reduce(or_, (family.container for family in FAMILIES.values())), Field(discriminator="family")
    ]
    Family = Literal[tuple(FAMILIES)]
