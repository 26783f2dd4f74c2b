"""The model that is always there: an extractive engine behind the model port. See docs/offline_model.md."""

from memory.offline.model import NOTICE, OfflineModel

__all__ = ["NOTICE", "OfflineModel"]
