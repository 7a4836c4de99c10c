from __future__ import annotations

import subprocess
import sys

import pytest

from edgeveil.errors import UnknownNameError
from edgeveil.models.architectures import MODELS
from edgeveil.models.presets import PAPERS, preset


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.parametrize("dataset", ["cora", "twitch-es", "flickr", "ppi", "facebook", "my-own-graph"])
def test_there_is_a_preset_for_everything(paper, model, dataset):
    found = preset(paper, dataset, model)
    assert found.model.name == model
    assert found.source


def test_linkteller_twitch_is_appendix_f5():
    found = preset("linkteller", "twitch_es", "GCN")
    assert (found.model.norm, found.model.hidden, found.model.dropout, found.model.bias) == (
        "first-order",
        256,
        0.5,
        "after",
    )
    assert (found.train.lr, found.train.epochs, found.train.keep) == (0.01, 200, "last")
    assert found.scaling == "standard"


def test_linkteller_gat_is_appendix_f6():
    found = preset("linkteller", "ppi", "gat").model
    assert (found.layers, found.heads, found.out_heads, found.hidden, found.has_skip) == (3, 6, 6, 256, True)


def test_lpgnet_planetoid_is_appendix_b():
    found = preset("lpgnet", "cora", "mlp")
    assert found.model.bias == "none"
    assert (found.train.schedule, found.train.keep, found.train.epochs) == ("linear", "best-val-loss", 500)
    assert found.split == "public"
    assert preset("lpgnet", "cora", "gcn").model.bias == "before"


def test_the_tuned_points_lie_in_the_grid_and_say_so():
    for dataset, model in (("cora", "mlp"), ("citeseer", "mlp"), ("pubmed", "mlp")):
        found = preset("lpgnet-tuned", dataset, model)
        assert found.tuned
        assert "edgeveil.models.tune" in found.source
        assert found.model.hidden in (16, 64, 256) and found.model.layers in (2, 3)
        assert found.train.lr in (0.005, 0.001, 0.01, 0.05)
    assert not preset("lpgnet", "cora", "mlp").tuned
    assert preset("lpgnet-tuned", "facebook", "gcn") == preset("lpgnet", "facebook", "gcn")


def test_graphprivatizer_is_appendix_a():
    found = preset("graphprivatizer", "cora", "gat")
    assert (found.model.kprop, found.label_steps, found.split) == (16, 2, "50:25:25")
    assert (found.model.hidden, found.model.heads, found.model.activation) == (16, 4, "selu")
    assert (found.train.lr, found.train.weight_decay, found.train.epochs) == (0.01, 1e-3, 100)


def test_a_twin_has_the_settings_of_its_original():
    assert preset("linkteller", "flickr-twin", "gcn") == preset("linkteller", "flickr", "gcn")


def test_unknown_names_list_the_known():
    with pytest.raises(UnknownNameError, match="linkteller"):
        preset("linktelller", "cora", "gcn")
    with pytest.raises(UnknownNameError, match="gcn"):
        preset("default", "cora", "gnc")


def test_presets_do_not_import_torch():
    code = "import sys; from edgeveil.models.presets import preset; preset('lpgnet', 'cora', 'gcn'); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
