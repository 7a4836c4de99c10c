"""A torch module from outside trains as in PyG, answers in float64, and is found by name or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.zoo import toy
from torch.nn import BatchNorm1d, Linear, Module, ReLU, Sequential

import edgeveil as ev
from edgeveil.errors import InputError, TrainingError, UnknownNameError
from edgeveil.models.assemble import build, predict_logits
from edgeveil.models.module import ModuleModel, as_edges
from edgeveil.models.own_models import OwnModel, code_of, find_model, model_name, register_model
from edgeveil.models.settings import TrainSpec
from edgeveil.models.spec import ModelSpec
from edgeveil.models.structure import Structure
from edgeveil.models.train import fit

pyg = pytest.importorskip("torch_geometric.nn")


class Net(Module):
    """GCN with BatchNorm and dropout."""

    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.a, self.norm, self.b = pyg.GCNConv(i, 8), BatchNorm1d(8), pyg.GCNConv(8, o)

    def forward(self, x, edge_index, edge_weight=None):
        h = self.norm(self.a(x, edge_index, edge_weight)).relu()
        h = torch.nn.functional.dropout(h, 0.4, self.training)
        return self.b(h, edge_index, edge_weight)


class Plain(Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.a = Linear(i, o)

    def forward(self, x, edge_index):
        return self.a(x)


def made(factory, i=24, o=3) -> ModuleModel:
    model = build(ModelSpec(name=model_name(factory)), i, o, seed=0)
    assert isinstance(model, ModuleModel)
    return model


def test_training_is_that_of_a_plain_pyg_loop() -> None:
    """Same weights, same dropout stream, Adam with the same decay: our loop and ten lines of PyG agree."""
    graph = toy()
    spec = TrainSpec(lr=0.02, weight_decay=5e-4, epochs=12)
    model = made(Net)
    start = {k: v.clone() for k, v in model.module.state_dict().items()}
    fit(model, graph.x, Structure(graph.adjacency), graph.y, graph.train_mask, None, spec, seed=3)

    own, data = Net(24, 3), ev.to_pyg(graph)
    own.load_state_dict(start)
    optimizer = torch.optim.Adam(own.parameters(), lr=0.02, weight_decay=5e-4)
    from edgeveil.seeds import derive

    torch.manual_seed(derive(3, "model", "training"))
    own.train()
    for _ in range(12):
        optimizer.zero_grad()
        out = own(data.x.float(), data.edge_index)
        torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    own.eval()
    torch.testing.assert_close(
        model.module(data.x, data.edge_index), own(data.x, data.edge_index), rtol=1e-3, atol=1e-3
    )
    assert float(model.module.norm.running_mean.abs().max()) > 0


def test_answers_are_float64_in_evaluation_mode() -> None:
    graph, model = toy(), made(Net)
    model.train()
    got = predict_logits(model, ev.defend(graph, "mlp", seed=0, scaling="none").matrix, graph.adjacency)
    double = made(Net).module.double().eval()
    data = ev.to_pyg(graph)
    want = double(data.x.double(), data.edge_index).detach().numpy()
    assert got.dtype == np.float64 and model.training
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_edges_run_from_sender_to_receiver_with_their_weights() -> None:
    import scipy.sparse as sp

    a = sp.csr_matrix(np.array([[0, 2.0, 0], [0, 0, 0], [1.0, 0, 0]]))  # 0 hears 1, 2 hears 0
    index, weight = as_edges(Structure(a))
    assert index.tolist() == [[1, 0], [0, 2]] and weight is not None and weight.tolist() == [2.0, 1.0]
    model = made(Net, 2, 2).eval().double()
    x = torch.randn(3, 2, dtype=torch.float64)
    light = model(x, Structure(sp.csr_matrix((a != 0).astype(float))))
    assert not torch.allclose(model(x, Structure(a))[0], light[0])


def test_weights_go_to_who_takes_them() -> None:
    assert made(Net).takes_weights and not made(Plain).takes_weights
    assert made("pyg:GCN").takes_weights and not made("pyg:GIN").takes_weights


@pytest.mark.parametrize("name", ["GCN", "GraphSAGE", "GAT", "GATv2", "GIN", "PNA", "EdgeCNN"])
def test_pyg_models_work_by_name(name: str) -> None:
    release = ev.defend(toy(), "none", model=f"pyg:{name}", seed=0, train=TrainSpec(epochs=3))
    assert release.model == f"pyg:{name}" and release.layers == 2 and np.isfinite(release.predict()).all()


def test_pna_keeps_nothing_of_the_degrees() -> None:
    """Two graphs with the same features and very different degrees: the buffers of the scalers are the same."""
    few, many = made("pyg:PNA"), made("pyg:PNA")
    fit(few, toy().x, Structure(toy().adjacency * 0), toy().y, toy().train_mask, None, TrainSpec(epochs=1), seed=0)
    fit(many, toy().x, Structure(toy().adjacency), toy().y, toy().train_mask, None, TrainSpec(epochs=1), seed=0)
    names = [n for n in few.module.state_dict() if "avg_deg" in n]
    assert names and all(torch.equal(few.module.state_dict()[n], many.module.state_dict()[n]) for n in names)


def test_wrong_models_get_one_clear_sentence() -> None:
    cases = {
        "that has its weights already": lambda: made(Plain(3, 2)),
        "must return logits": lambda: made(lambda i, o: Plain(i, o + 1)),
        "gave int": lambda: made(lambda i, o: 3),
        "cached=True": lambda: made(lambda i, o: pyg.GCNConv(i, o, cached=True)),
        "failed when called": lambda: made(lambda i, o: Sequential(Linear(i + 1, o), ReLU())),
        "no weights to train": lambda: made(lambda i, o: type("None_", (Module,), {"forward": lambda s, x, e: x})(), 3),
        "cannot find the model": lambda: model_name("no_such_package.models:Net"),
        "no plugin at": lambda: model_name("nowhere.py:Net"),
        "hidden is no setting": lambda: ModelSpec(name="pyg:GIN", hidden=7),
    }
    for message, run in cases.items():
        with pytest.raises(InputError, match=message):
            run()
    with pytest.raises(UnknownNameError, match="Did you mean 'GIN'"):
        model_name("pyg:GINN")


class Odd(Plain):
    """A module whose answer is whatever its class says."""

    def forward(self, x, edge_index):
        return self.answer(self.a(x))


def odd(answer):
    return type("Odd_", (Odd,), {"answer": staticmethod(answer)})


def test_what_a_module_answers_or_raises_is_told_in_one_sentence() -> None:
    def raises(out):
        raise KeyError("weird")

    def broken(i, o):
        raise RuntimeError("no such device")

    class OnData(Plain):
        def forward(self, data):
            return self.a(data.x)

    cases = {
        "and nothing else; got tuple": odd(lambda out: (out, out)),
        r"must return logits \[4, 3\].*got \[4\]": odd(lambda out: out[:, 0]),
        "failed when called .* KeyError: 'weird'": odd(raises),
        "failed: RuntimeError: no such device": broken,
        r"called as module\(x, edge_index\) or": OnData,
        "go by name, as 'pyg:GIN'": pyg.models.GIN,
    }
    for message, factory in cases.items():
        with pytest.raises(InputError, match=message):
            made(factory)


def test_weights_that_cannot_be_left_out_are_ones() -> None:
    class Needs(Net):
        def forward(self, x, edge_index, edge_weight):
            assert edge_weight.shape == edge_index.shape[1:] and edge_weight.dtype == x.dtype
            return super().forward(x, edge_index, edge_weight)

    x, structure = torch.randn(60, 24), Structure(toy().adjacency)
    torch.testing.assert_close(made(Needs).eval()(x, structure), made(Net).eval()(x, structure))
    assert np.isfinite(ev.defend(toy(), "none", model=Needs, seed=0, train=TrainSpec(epochs=2)).predict()).all()


def test_lazy_weights_are_filled_in_and_reload(tmp_path) -> None:
    class Lazy(Module):
        def __init__(self, i: int, o: int) -> None:
            super().__init__()
            self.a, self.b = pyg.SAGEConv(-1, 8), torch.nn.LazyLinear(o)

        def forward(self, x, edge_index):
            return self.b(self.a(x, edge_index).relu())

    release = ev.defend(toy(), "lapgraph", epsilon=4.0, model=Lazy, seed=0, train=TrainSpec(epochs=2))
    again = ev.Release.load(release.save(tmp_path / "r"))
    np.testing.assert_array_equal(again.predict(), release.predict())


@pytest.mark.parametrize("how", ["raises", "takes too little", "returns another kind"])
def test_own_training_that_fails_is_told_with_what_is_expected(how: str) -> None:
    def raises(module, data, train_mask, val_mask, seed):
        raise ZeroDivisionError("boom")

    def short(module, data):
        pass

    fits = {"raises": raises, "takes too little": short, "returns another kind": lambda *_: Linear(2, 2)}
    with pytest.raises(TrainingError, match=r"own training of .*Plain' failed: .*fit\(module, data, train_mask"):
        ev.defend(toy(), "none", model=OwnModel(Plain, fit=fits[how]), seed=0)


def test_float32_constants_inside_are_explained() -> None:
    class Stubborn(Plain):
        def forward(self, x, edge_index):
            return self.a(x) @ torch.eye(3, dtype=torch.float32)

    graph = toy()
    release = ev.defend(graph, "none", model=Stubborn, seed=0, train=TrainSpec(epochs=1))
    with pytest.raises(InputError, match="computed in float64"):
        release.predict()


def test_own_training_replaces_ours() -> None:
    seen = {}

    def train(module, data, train_mask, val_mask, seed):
        seen.update(x=data.x.dtype, seed=seed, hidden=int((data.y == -1).sum()), count=int(train_mask.sum()))
        with torch.no_grad():
            module.a.weight.fill_(0.0)
            module.a.bias.copy_(torch.tensor([0.0, 1.0, 2.0]))

    graph = toy()
    release = ev.defend(graph, "lapgraph", epsilon=4.0, model=OwnModel(Plain, fit=train), seed=0)
    np.testing.assert_array_equal(release.predict()[0], [0, 1, 2])
    assert seen["count"] == graph.train_mask.sum() and seen["x"] == torch.float32
    assert seen["hidden"] == (~(graph.train_mask | graph.val_mask)).sum()
    with pytest.raises(InputError, match="randomises labels"):
        ev.defend(graph, "gp-t", epsilon=4.0, model=OwnModel(Plain, fit=train), seed=0)

    def diverge(module, data, *rest):
        with torch.no_grad():
            module.a.weight.fill_(float("nan"))

    with pytest.raises(TrainingError, match="not finite"):
        ev.defend(graph, "none", model=OwnModel(Plain, fit=diverge), seed=0)


def test_lightning_style_modules_take_their_own_steps() -> None:
    class Lit(Plain):
        def training_step(self, batch, number):
            out = self(batch.x, batch.edge_index)
            return torch.nn.functional.cross_entropy(out[batch.train_mask], batch.y[batch.train_mask])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1.0)

    short = ev.defend(toy(), "none", model=Lit, seed=0, train=TrainSpec(epochs=1)).utility("train")["accuracy"]
    long = ev.defend(toy(), "none", model=Lit, seed=0, train=TrainSpec(epochs=60)).utility("train")["accuracy"]
    assert long > short


def test_a_plain_name_may_be_registered() -> None:
    register_model(Plain, "test-plain")
    release = ev.defend(toy(), "none", model="test-plain", seed=0, train=TrainSpec(epochs=2))
    assert release.model == "test-plain"


def test_a_file_is_named_without_its_folder_and_its_code_counts(tmp_path) -> None:
    file = tmp_path / "mine.py"
    text = "from torch.nn import Linear, Module\nclass M(Module):\n    def __init__(self, i, o):\n"
    text += "        super().__init__()\n        self.a = Linear(i, o)\n    def forward(self, x, e):\n        return self.a(x)\n"
    file.write_text(text)
    assert model_name(f"{file}:M") == "mine.py:M" and find_model("mine.py:M").name == "mine.py:M"
    before = code_of("mine.py:M")
    file.write_text("# a comment\n" + text)
    assert code_of("mine.py:M") == before
    file.write_text(text.replace("self.a(x)", "-self.a(x)"))
    assert code_of("mine.py:M") != before
