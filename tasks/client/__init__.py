"""The one way to a model: every call is keyed, recorded durably, limited, budgeted and accounted for."""
