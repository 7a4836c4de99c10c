"""The registered models: what each is built of, and the facts that the rest of the code asks for.

Registering a class here, in a package with the entry point ``edgeveil.models`` or in a plugin file is all it takes to
add a model. Layers are imported when a model is built, so that reading a name or a fact does not import torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from edgeveil.registry import Registry

if TYPE_CHECKING:
    from edgeveil.models.network import Layer, Model
    from edgeveil.models.spec import ModelSpec

__all__ = ["MODELS", "Architecture"]


class Architecture(ABC):
    """One kind of node classifier. `layers` suffices for a stack of layers; override `build` for anything else.

    Facts: `rowwise` (an output depends on the node's own features only), `attends` (edge weights are learnt), `samples`
    (takes a `fanout`), `takes_skip` and `skips` (whether a residual can be asked for, and is there unasked), `biases`
    (places of the bias), `hidden` and `heads` (what fits where no paper says), `layered` (a stack of our layers: a pass
    may leave out rows, and the settings of layers apply), `reads_itself` (a node's own part has weights of its own).
    """

    rowwise: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    samples: ClassVar[bool] = False
    takes_skip: ClassVar[bool] = True
    skips: ClassVar[bool] = False
    biases: ClassVar[tuple[str, ...]] = ("after", "none")
    hidden: ClassVar[int] = 16
    heads: ClassVar[int] = 4
    layered: ClassVar[bool] = True
    reads_itself: ClassVar[bool] = False

    def propagation(self, spec: ModelSpec) -> str | None:
        """How a layer mixes neighbours where all of them weigh alike: a normalisation, "mean" or "sum".

        None where nothing is known of it, or nothing is mixed.
        """
        return None

    @abstractmethod
    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """The layers of a freshly initialised model; weights come from torch's generator, which is seeded."""

    def build(self, spec: ModelSpec, num_features: int, num_outputs: int) -> Model:
        """The model itself; whatever it is, it takes features and a `Structure` and returns logits."""
        from edgeveil.models.network import Model

        return Model(spec, num_features, num_outputs, self.layers(spec, num_features, num_outputs))


def _adopt(name: str, found: Any) -> None:
    """An entry point may name a factory of torch modules; classes that register themselves and modules are done."""
    if callable(found) or hasattr(found, "factory"):
        from edgeveil.models.own_models import register_model

        register_model(found, name)


MODELS: Registry[Architecture] = Registry("model", __name__, "edgeveil.models", adopt=_adopt)


@MODELS.register("gcn")
class GCN(Architecture):
    """Graph convolution."""

    biases = ("after", "before", "none")

    def propagation(self, spec: ModelSpec) -> str | None:
        """As it is normalised."""
        return spec.norm

    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """`layers` graph convolutions."""
        from edgeveil.models.gcn import gcn_layers

        return gcn_layers(spec, num_features, num_outputs)


@MODELS.register("mlp")
class MLP(Architecture):
    """Fully connected layers; never sees an edge."""

    rowwise = True
    takes_skip = False
    biases = ("after", "before", "none")
    hidden = 64

    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """`layers` fully connected layers."""
        from edgeveil.models.mlp_layers import mlp_layers

        return mlp_layers(spec, num_features, num_outputs)


class Neighbours(Architecture):
    """A node's own part plus an aggregate of its neighbours."""

    takes_skip = False
    hidden = 64
    reads_itself = True
    aggregate: ClassVar[str]

    def propagation(self, spec: ModelSpec) -> str | None:
        """The aggregate."""
        return self.aggregate

    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """`layers` layers with this aggregate."""
        from edgeveil.models.sage import neighbour_layers

        return neighbour_layers(spec, num_features, num_outputs, self.aggregate)


@MODELS.register("sage")
class SAGE(Neighbours):
    """GraphSAGE with the mean."""

    samples = True
    aggregate = "mean"


@MODELS.register("graphconv")
class GraphConv(Neighbours):
    """GraphConv: the sum."""

    aggregate = "sum"


class Attention(Architecture):
    """Learnt edge weights; `layer` names the class in `edgeveil.models.attention`."""

    attends = True
    layer: ClassVar[str]
    uniform: ClassVar[str] = "aug-rwalk"  # what equal scores come to: the mean over a node and its neighbours

    def propagation(self, spec: ModelSpec) -> str | None:
        """What equal scores come to."""
        return self.uniform

    def layers(self, spec: ModelSpec, num_features: int, num_outputs: int) -> list[Layer]:
        """`layers` attention layers of this kind."""
        from edgeveil.models import attention

        return attention.attention_layers(spec, num_features, num_outputs, getattr(attention, self.layer))


@MODELS.register("gat")
class GAT(Attention):
    """Graph attention."""

    layer = "GATLayer"
    heads = 8


@MODELS.register("gatv2")
class GATv2(Attention):
    """Graph attention with dynamic scores."""

    layer = "GATv2Layer"


@MODELS.register("transformer")
class Transformer(Attention):
    """Graph transformer; its linear residual is part of the layer."""

    layer = "TransformerLayer"
    skips = True
    uniform = "mean"
