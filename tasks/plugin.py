"""What plug-ins of every kind have in common: one file, one frozen class, whose fields are its options."""

from typing import Any, ClassVar

import msgspec

from schemas.vocabulary import Kind


class Plugin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plug-in of any kind: its fields are its options, unknown options are refused.

    version: raised whenever the same options would give another result.
    inert: fields that cannot change a result (batch sizes, devices); they stay out of the fingerprint.
    """

    kind: ClassVar[Kind]
    version: ClassVar[int] = 1
    inert: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def plugin_id(cls) -> str:
        """The id: the name of the file that defines the class."""
        return cls.__module__.rsplit(".", 1)[-1]

    def identity(self) -> dict[str, Any]:
        """Everything about this plug-in that shapes its results, as plain JSON data."""
        options = msgspec.to_builtins(self)
        return {
            "kind": self.kind.value,
            "use": self.plugin_id(),
            "version": self.version,
            "options": {key: value for key, value in options.items() if key not in self.inert},
        }
