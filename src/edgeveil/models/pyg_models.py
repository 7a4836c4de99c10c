"""PyTorch Geometric's ready models by name: two layers of 64, ReLU, dropout 0.5, as ``pyg:GIN``. Needs the extra."""

from __future__ import annotations

from typing import Any

from edgeveil.errors import MissingExtra, UnknownNameError
from edgeveil.models.own_models import OwnModel

__all__ = ["PYG_MODELS", "pyg_model"]

HIDDEN, LAYERS, DROPOUT = 64, 2, 0.5
PYG_MODELS: dict[str, dict[str, Any]] = {
    "GCN": {},
    "GraphSAGE": {},
    "GAT": {"heads": 4},
    "GATv2": {"heads": 4, "v2": True},
    "GIN": {"norm": "batch_norm"},  # sums grow with the degree
    "PNA": {
        "aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"],
        "norm": "batch_norm",
    },
    "EdgeCNN": {"norm": "batch_norm"},
}  # fmt: skip


def pyg_model(name: str) -> OwnModel:
    """The model behind ``pyg:name``.

    PNA's scalers are relative to a mean degree. That of the private graph would be told to whoever gets the weights, so
    a fixed histogram stands in; the weights that follow take the constant up.
    """
    known = next((n for n in PYG_MODELS if n.lower() == name.lower()), None)
    if known is None:
        raise UnknownNameError("PyG model", name, PYG_MODELS)

    def build(num_features: int, num_outputs: int) -> Any:
        try:
            import torch
            from torch_geometric.nn import models
        except ImportError as error:
            raise MissingExtra(f"the model pyg:{known}", "pyg") from error
        options = dict(PYG_MODELS[known])
        if known == "PNA":
            options["deg"] = torch.ones(9, dtype=torch.long)
        made = getattr(models, known.removesuffix("v2"))
        return made(num_features, HIDDEN, LAYERS, num_outputs, dropout=DROPOUT, **options)

    build.__qualname__ = build.__name__ = known
    return OwnModel(build, name=f"pyg:{known}")
