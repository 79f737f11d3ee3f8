"""What users have beside checkpoints and must never lose: data, results, exports, downloads, ensembles."""

from support import checkpoint_bytes as files


def _numbered(template, make):
    return lambda count: {template.format(at): make(float(at)) for at in range(count)}


def _named(names, make):
    return lambda _: {name: make(0.5 + at) for at, name in enumerate(names)}


def _final_state(value):
    """A whole state of a training that ended at the same epoch as all others."""
    return files.torch_state(100, 10_000, value=value)


def _hub_download(_):
    names = [f"model-{part:05}-of-00003.safetensors" for part in (1, 2, 3)]
    shards = {f"llama/{name}": files.safetensors(names=(name[:11],)) for name in names}
    index = files.safetensors_index(names, [name[:11] for name in names])
    config = files.json_text({"model_type": "llama"})
    return {**shards, "llama/model.safetensors.index.json": index, "llama/config.json": config}


DATA = {
    "logs": _numbered("train_{}.log", lambda _: files.text("epoch 1 loss 0.5")),
    "shards of a data set": _numbered("shard_{:04}.npz", files.npz_arrays),
    "shards of a data set in a directory": _numbered("data/shard_{:04}.npz", files.npz_arrays),
    "embeddings": _numbered("emb_{:05}.pt", files.torch_tensors),
    "embeddings with ids": _numbered("embeddings_{}.pt", files.torch_embeddings),
    "embeddings as parts": _numbered("embeddings/part-{:05}.npy", files.npy_array),
    "embeddings by rank": _numbered("emb_{}_0.pt", files.torch_tensors),
    "samples": _numbered("samples_{:06}.npz", files.npz_arrays),
    "samples by epoch": _numbered("sample_epoch_{}.npz", files.npz_arrays),
    "samples as tensors by step": _numbered("samples/step_{}.pt", files.torch_tensors),
    "images": _numbered("samples/epoch_{}.png", lambda _: files.png()),
    "predictions": _numbered("predictions_{}.pkl", files.pickle_values),
    "predictions by epoch": _numbered("preds_epoch_{}.npz", files.npz_arrays),
    "outputs by step": _numbered("val_outputs_step_{}.pt", files.torch_embeddings),
    "attention by step": _numbered("attn_step_{}.pt", files.torch_tensors),
    "checkpoints of metrics": _numbered("checkpoint_metrics_{}.npz", files.npz_arrays),
    "tokens": _numbered("tokens_{:05}.npy", files.npy_array),
    "tokens in chunks": _numbered("chunk_{:03}.bin", lambda value: files.tokens(int(value))),
    "states of a chain": _numbered("state_{:03}.npy", files.npy_array),
    "graphs": _numbered("processed/data_{}.pt", files.pyg_data),
    "a graph cache": _named(("processed/data.pt", "processed/pre_transform.pt"), files.pyg_dataset),
    "fields": _numbered("fields_step_{}.npz", files.npz_arrays),
    "snapshots": _numbered("snapshot_{:03}.hdf5", files.h5_snapshot),
    "parquet": _numbered("part-{:05}.parquet", lambda _: files.parquet()),
    "completions": _numbered("completions/completions_{:05}.parquet", lambda _: files.parquet()),
    "arrow": _numbered("data-{:05}-of-00008.arrow", lambda _: files.parquet()),
    "a zoo of safetensors": _named(
        ("llama-7b.safetensors", "llama-13b.safetensors", "llama-70b.safetensors"), files.safetensors
    ),
    "a zoo of torch": _named(("vit_b_16.pth", "vit_b_32.pth", "resnet18.pth", "resnet50.pth"), files.torch_weights),
    "hub weights": _named(("resnet50-0676ba61.pth", "resnet50-11ad3fa6.pth"), files.torch_weights),
    "a download": _hub_download,
    "an ensemble": _numbered("model_{}.pt", files.torch_weights),
    "an ensemble of states": _numbered("member_{}.pt", _final_state),
    "an ensemble of models with states": _numbered("net_{}.pt", _final_state),
    "folds": _numbered("fold{}.pt", files.torch_weights),
    "folds with states": _numbered("fold_{}.pt", _final_state),
    "experts": _numbered("expert_{}.pt", files.torch_weights),
    "seeds": _numbered("seed_{}.pth", _final_state),
    "estimators of folds": _numbered("fold_{}.joblib", files.estimator),
    "estimators": _numbered("estimator_{}.pkl", files.estimator),
    "averages": _named(("ema_0.9999.pt", "ema_0.999.pt", "ema_0.99.pt"), files.torch_weights),
    "a final model": _named(("final_model.pt", "model_final.pth"), files.torch_weights),
}

# Parameters with a progress word: they may go where the site's policy says so of weights.
EXPORTS = {
    "exports by step": _numbered("export/model_step_{}.safetensors", files.safetensors),
    "exports by epoch": _numbered("weights_epoch_{}.pt", files.torch_weights),
}

# What tools write into the directories of checkpoints, and nobody would lose with them without a word.
INSIDE = {
    "predictions": _named(("predictions.npz",), files.npz_arrays),
    "embeddings": _numbered("emb_{:05}.pt", files.torch_tensors),
    "embeddings in a directory": _numbered("embeddings/emb_{:05}.pt", files.torch_tensors),
    "images": _numbered("samples/sample_{}.png", lambda _: files.png()),
    "results of an evaluation": _named(("eval_results.csv",), lambda _: files.text("task,score", "mmlu,0.5")),
}
