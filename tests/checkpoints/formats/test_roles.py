"""What a state's names and kinds of values show of its role; real files of all formats are in the contract."""

import pytest

from ckptd.checkpoints.formats import roles
from ckptd.checkpoints.formats.encodings.msgpack_walk import Skipped
from ckptd.checkpoints.formats.encodings.pickle_values import Global, Opaque, Persistent
from ckptd.checkpoints.formats.state_walk import find_role
from ckptd.core.model import Role


def tensor(kind="FloatStorage", count=4):
    pid = ("storage", Global("torch", kind), "0", "cpu", count)
    return Opaque("torch._utils", "_rebuild_tensor_v2", (Persistent(pid), 0, (count,), (1,), False, {}))


def parameter():
    return Opaque("torch._utils", "_rebuild_parameter", (tensor(), True, {}))


def array():
    return Opaque("numpy._core.multiarray", "_reconstruct", (), (1, (4,), None, False, b"\0" * 16))


MODEL = {"conv.weight": tensor(), "conv.bias": tensor(), "bn.running_mean": tensor()}
FLAX = {"params": {"Dense_0": {"kernel": Skipped(64), "bias": Skipped(16)}}}
SGD = {"state": {}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}
ADAM = {"state": {0: {"step": 3.0, "exp_avg": tensor()}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
SCHEDULER = {"base_lrs": [0.1], "last_epoch": 3, "_step_count": 4, "_last_lr": [0.01]}
SCALER = {"scale": 65536.0, "growth_factor": 2.0, "growth_interval": 2000, "_growth_tracker": 7}
GENERATOR = tensor("ByteStorage", 5056)
MODULE = Opaque("__main__", "Net", state={"_parameters": {}, "_buffers": {}, "_modules": {"fc": None}})
NETWORK = Opaque("sklearn.neural_network", "MLPClassifier", state={"coefs_": [array()], "t_": 300})
RECORD = Opaque("optax._src.transform", "ScaleByAdamState", (3, {"w": array()}, {"w": array()}))

STATES = {
    "a script's dictionary": {"epoch": 3, "model": MODEL, "optimizer": ADAM},
    "an optimizer without moments": {"model": MODEL, "optimizer": SGD},
    "several optimizers in a list": {"state_dict": MODEL, "optimizer_states": [ADAM, SGD]},
    "an optimizer of one's own": {"net": MODEL, "optimizer": {"m": tensor(), "v": tensor()}},
    "a counter with parameters": {"epoch": 3, "state_dict": MODEL},
    "a counter that is a tensor": {"step": tensor(), "model": MODEL},
    "a counter in the trainer's part": {"model": MODEL, "trainer": {"global_step": 100}},
    "a counter with a whole model": {"epoch": 3, "model": MODULE},
    "a counter with a model of scikit-learn": {"epoch": 3, "model": NETWORK},
    "parameters beside their epoch": {"epoch": 3, "w1": array(), "b1": array()},
    "parameters of JAX in lists": {"step": 7, "params": [(array(), array())]},
    "Flax's TrainState": {"step": 7, **FLAX, "opt_state": {"0": {"mu": Skipped(64)}}},
    "a record of Optax": {"params": FLAX, "rest": (RECORD, ())},
    "an object of a user's class": Opaque("__main__", "Trainer", state={"iteration": 3, "model": MODEL}),
    "a named tuple with an optimizer": Opaque("__main__", "TrainState", (FLAX, RECORD)),
    "parameters and a scheduler": {"model": MODEL, "lr_scheduler": SCHEDULER},
    "DEAP's population": {"population": [Opaque("deap", "Individual")], "generation": 3, "rndstate": (3, (1, 2), None)},
}

PARTS = {
    "the optimizer's own file": ADAM,
    "an optimizer with the epoch": {"epoch": 3, "optimizer": ADAM, "scheduler": SCHEDULER},
    "a pickled optimizer": Opaque("torch.optim.adam", "Adam", state={"defaults": {}, **ADAM}),
    "moments of one's own, or the mean and variance of a posterior": {"step": 7, "mu": array(), "nu": array()},
    "a scheduler's own file": SCHEDULER,
    "a scaler's own file": SCALER,
    "a random generator's own file": {"python": (3, (1, 2), None), "numpy": ("MT19937", array()), "cpu": GENERATOR},
}

WEIGHTS = {
    "a bare state_dict": MODEL,
    "a state_dict in a dictionary": {"state_dict": MODEL, "arch": "resnet50"},
    "an attention's projections": {"attn.in_proj_weight": tensor(), "attn.in_proj_bias": tensor()},
    "parameters of Flax": FLAX,
    "a list of parameters": [parameter(), parameter()],
    "a whole model": MODULE,
    "a model of scikit-learn": NETWORK,
    "a published model with its optimizer removed": {"epoch": -1, "model": MODULE, "optimizer": None, "opt": {"lr": 1}},
    "a model with the epochs it was meant to train": {"epochs": 300, "state_dict": MODEL},
    "an average that counts its updates": {"decay": 0.999, "num_updates": 500, "shadow_params": [tensor(), tensor()]},
    "an average with a counter": {"step": 500, "model_ema": MODEL},
    "a model with the settings of an optimizer": {"model": MODEL, "optimizer": {"name": "adamw", "lr": 0.1}},
}

DATA = {
    "a bare tensor": tensor(),
    "a list of tensors": [tensor(), tensor()],
    "a counter with samples": {"step": 100, "samples": tensor()},
    "a counter with the fields of a simulation": {"step": 100, "u": array(), "v": array(), "w": array(), "p": array()},
    "fields with an epoch of their time": {"epoch": 3, "rho": array(), "vx": array(), "b": array()},
    "particles with a weight": {"step": 9, "position": array(), "momentum": array(), "weight": array()},
    "a simulation's parameters": {"step": 9, "params": {"grid": array()}, "u": array(), "temperature": array()},
    "what a model named by a text predicts": {"epoch": 3, "model": "resnet50", "predictions": tensor()},
    "what a model predicts": {"epoch": 3, "model": {"predictions": tensor(), "labels": tensor()}},
    "embeddings": {"user_embeddings": tensor(), "item_embeddings": tensor()},
    "embeddings by the names of pictures": {"cat.0001.jpg": tensor(), "dog.weight.jpg": tensor()},
    "a graph": {"x": tensor(), "edge_index": tensor(), "edge_weight": tensor(), "y": tensor()},
    "a graph of PyTorch Geometric": Opaque("torch_geometric.data.data", "Data", state={"_store": {"x": tensor()}}),
    "tokens": {"input_ids": tensor(), "attention_mask": tensor()},
    "weights of samples": {"epoch": 3, "x": tensor(), "y": tensor(), "sample_weight": tensor()},
    "a counter alone": {"epoch": 3, "lr": 0.1},
    "curves by the names of optimizers": {"adam": array(), "rmsprop": array(), "step": array()},
    "a study of an optimizer": {"optimizer": {"x": array(), "f": array()}},
    "results with the random state that they came from": {"results": [{"a": array()}], "rng_state": (3, (1, 2), None)},
    "results that say how long each device took": {"cpu": {"t": array()}, "cuda": {"t": array()}},
    "a data set of scikit-learn": Opaque("sklearn.utils._bunch", "Bunch", state={"data": array(), "target": array()}),
    "a text": "epoch 3",
    "nothing": {},
}


def number(value):
    """Read a tensor as the reader of torch does, which finds one element in it."""
    return 3 if isinstance(value, Opaque) else value if isinstance(value, (int, float)) else None


@pytest.mark.parametrize("name", STATES)
def test_what_a_training_resumes_from_is_a_state(name):
    found = find_role(STATES[name], number)
    assert found.role is Role.STATE, found
    assert found.evidence


@pytest.mark.parametrize("name", PARTS)
def test_what_holds_no_parameters_is_a_part_whose_rest_is_elsewhere(name):
    found = find_role(PARTS[name], number)
    assert found.role is Role.PART, found
    assert found.evidence.endswith("no parameters")


@pytest.mark.parametrize("name", WEIGHTS)
def test_parameters_alone_are_weights(name):
    found = find_role(WEIGHTS[name], number)
    assert found.role is Role.WEIGHTS, found
    assert found.evidence


@pytest.mark.parametrize("name", DATA)
def test_what_proves_nothing_is_data(name):
    found = find_role(DATA[name], lambda value: value if isinstance(value, (int, float)) else None)
    assert found.role is Role.DATA, found


@pytest.mark.parametrize(
    ("names", "counters", "role"),
    [
        (["model.layer.weight", "optim.state.layer.weight.exp_avg"], [], Role.STATE),
        (["params/dense/kernel", "opt/mu/dense/kernel", "opt/nu/dense/kernel"], ["step"], Role.STATE),
        (["w1", "b1", "mu", "nu"], ["step"], Role.STATE),
        (["layers/dense/vars/0", "optimizer/vars/1"], [], Role.STATE),
        (["dense/kernel:0", "optimizer_weights/Adam/dense/kernel/m:0"], [], Role.STATE),
        (["layers/dense/vars/0", "layers/dense/vars/1"], [], Role.WEIGHTS),
        (["model_weights/dense/kernel:0"], [], Role.WEIGHTS),
        (["base_model.q_proj.lora_A.weight", "base_model.q_proj.lora_B.weight"], [], Role.WEIGHTS),
        (["PartType0/Coordinates", "PartType0/Masses", "PartType0/Velocities"], ["time_step"], Role.DATA),
        (["fields/E/x", "particles/e/weighting", "particles/e/momentum/x"], ["iteration"], Role.DATA),
        (["embeddings"], ["step"], Role.DATA),
        ([], ["step"], Role.DATA),
    ],
)
def test_names_alone_show_the_role_too(names, counters, role):
    signs = roles.RoleSigns()
    for name in names:
        signs.add_array(name)
    for name in counters:
        signs.add_counter(name, 7)
    assert signs.decide().role is role


@pytest.mark.parametrize(
    ("names", "role"),
    [
        (["conv1/w", "conv1/w/Adam", "conv1/w/Adam_1", "beta1_power"], Role.STATE),
        (["model/dense/kernel/.ATTRIBUTES/VARIABLE_VALUE", "save_counter/.ATTRIBUTES/VARIABLE_VALUE"], Role.STATE),
        (["w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"], Role.STATE),
        (["layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE", "_CHECKPOINTABLE_OBJECT_GRAPH"], Role.WEIGHTS),
    ],
)
def test_variables_of_tensorflow_are_parameters_unless_they_count_or_belong_to_an_optimizer(names, role):
    assert roles.judge_variables(names).role is role


def test_a_state_that_holds_itself_is_walked_once():
    state = {"model": dict(MODEL)}
    state["model"]["again"] = state
    state["list"] = [state] * 1000
    assert find_role(state).role is Role.WEIGHTS


def test_a_state_of_many_parts_costs_no_more_than_its_bound():
    shared = [tensor()] * 200
    for _ in range(30):
        shared = [shared, *[list(shared) for _ in range(199)]]
    assert find_role(shared).role is Role.DATA
