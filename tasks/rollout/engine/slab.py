"""A key-value cache that grows by blocks: the stock one copies everything it holds at every token.

With 128 rows the copying is a quarter of a decoding step on a CPU.
"""

import functools
from typing import Any

_BLOCK = 64


@functools.cache
def _layer_class() -> Any:
    import torch
    from transformers.cache_utils import DynamicLayer

    class SlabLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values (rows, heads, positions, head size) as views into buffers with room ahead."""

        def _grown(self, buffer: Any, held: Any, more: Any) -> Any:
            length, wanted = held.shape[-2], held.shape[-2] + more.shape[-2]
            if buffer is None or buffer.shape[0] != held.shape[0] or buffer.shape[-2] < wanted:
                rows, heads, _, size = more.shape
                buffer = torch.empty((rows, heads, wanted + _BLOCK, size), dtype=more.dtype)
                buffer[:, :, :length] = held
            buffer[:, :, length:wanted] = more
            return buffer

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            """Appends the new positions and gives all of them."""
            if self.keys is None:  # type: ignore[has-type]
                self.device = key_states.device
                self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
                self._key_buffer = self._value_buffer = None
                self.is_initialized = True
            wanted = self.keys.shape[-2] + key_states.shape[-2]
            self._key_buffer = self._grown(self._key_buffer, self.keys, key_states)
            self._value_buffer = self._grown(self._value_buffer, self.values, value_states)
            self.keys, self.values = self._key_buffer[:, :, :wanted], self._value_buffer[:, :, :wanted]
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            """Keeps (and repeats, where an index stands twice) those rows."""
            self.keys, self.values = self.keys[indices], self.values[indices]
            self._key_buffer = self._value_buffer = None

    return SlabLayer


def slab_cache(layers: int) -> Any:
    """An empty cache for a model of so many layers, as transformers models take it."""
    from transformers.cache_utils import Cache

    layer = _layer_class()
    return Cache(layers=[layer() for _ in range(layers)])
