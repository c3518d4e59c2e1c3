"""The views of the lake: what people and reports read. Every view takes one row per id.

Replaced whenever a definition here changes (see `warehouse.migrations`); order matters, a view may use
the ones before it.
"""

VIEWS: dict[str, str] = {}
