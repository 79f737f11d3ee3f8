"""What lies beside checkpoints and looks like them: data sets, caches, downloads, trackers, exports."""

from layouts.real.contents import (
    PARAMETERS,
    arrays,
    binary,
    index,
    made,
    model,
    npy,
    safetensors,
    shard,
    tar,
    tensors,
    torch,
    whole,
)
from layouts.real.layout import Layout, Only, Save, state, unread, weights

COMMIT = "e7da7f221d5bf496a48136c0cd264e630fe9fcc8"
DATA = "data is never moved"


ROWS = (
    Layout(
        name="PyTorch Geometric, one file for each graph",
        source="pyg-team/pytorch_geometric: docs/source/tutorial/create_dataset.rst, torch_geometric/data/dataset.py",
        sets=(unread({"data/processed/data_<i>.pt": lambda n: made.pyg_data(1.0 + n.i)}, why=DATA),),
        beside={
            "data/processed/pre_transform.pt": torch("None"),
            "data/processed/pre_filter.pt": torch("None"),
            "data/raw/graphs.csv": "a\n",
        },
    ),
    Layout(
        name="PyTorch Geometric, in memory",
        source="pyg-team/pytorch_geometric: torch_geometric/data/in_memory_dataset.py",
        sets=(unread({"processed/{train,val,test}.pt": lambda n: made.pyg_dataset()}, why=DATA),),
    ),
    Layout(
        name="Hugging Face datasets, save_to_disk",
        source="huggingface/datasets: src/datasets/arrow_dataset.py, save_to_disk",
        beside={
            "tokenized/data-{00000,00001}-of-00002.arrow": binary("ARROW1"),
            "tokenized/dataset_info.json": "{}",
            "tokenized/state.json": '{"_data_files": []}',
            "tokenized/cache-0123456789abcdef.arrow": binary("ARROW1"),
        },
    ),
    Layout(
        name="Hugging Face hub cache",
        source="huggingface/huggingface_hub: src/huggingface_hub/file_download.py",
        sets=(unread({"hub/models--gpt2/blobs/0123456789abcdef<e>": safetensors}, why="a download"),),
        beside={"hub/models--gpt2/refs/main": COMMIT, "hub/.locks/models--gpt2/0123.lock": ""},
        links={
            f"hub/models--gpt2/snapshots/{COMMIT}/model-0000<e>-of-00003.safetensors": "../../blobs/0123456789abcdef<e>"
        },
    ),
    Layout(
        name="Hugging Face hub, local_dir",
        source="huggingface/huggingface_hub: src/huggingface_hub/_local_folder.py",
        sets=(
            weights(
                {
                    "llama/model-{00001,00002}-of-00002.safetensors": shard(2),
                    "llama/model.safetensors.index.json": index("model-{:05d}-of-00002.safetensors", 2),
                    "llama/config.json": "{}",
                    "llama/.cache/huggingface/download/config.json.metadata": f"{COMMIT}\n",
                },
                role=None,
                why="a download",
            ),
        ),
    ),
    Layout(
        name="WebDataset shards",
        source="webdataset/webdataset: src/webdataset/writer.py, ShardWriter",
        sets=(unread({"shards/train-00000<i>.tar": tar}, why=DATA),),
    ),
    Layout(
        name="MosaicML Streaming shards",
        source="mosaicml/streaming: streaming/base/format/mds/writer.py",
        sets=(unread({"mds/shard.0000<i>.mds": binary("mds")}, why=DATA),),
        beside={"mds/index.json": "{}"},
    ),
    Layout(
        name="Megatron's indexed data sets",
        source="NVIDIA/Megatron-LM: megatron/core/datasets/indexed_dataset.py",
        sets=(unread({"corpus_text_document_<i>.{bin,idx}": lambda n: b"MMIDIDX\0\0" + made.tokens(n.i)}, why=DATA),),
        beside={"cache/0123abcd-GPTDataset-train-{document,sample,shuffle}_index.npy": npy},
    ),
    Layout(
        name="a data set of numbered arrays",
        source="numpy.savez, as preprocessing scripts write shards",
        sets=(unread({"shards/shard_000<i>.npz": arrays}, why=DATA),),
    ),
    Layout(
        name="embeddings of a corpus",
        source="torch.save of tensors, as embedding jobs write them",
        sets=(
            unread({"emb/emb_0000<i>.pt": lambda n: made.torch_embeddings(1.0 + n.i)}, why=DATA),
            unread({"out/features_rank{0,1}_<i>.npy": npy}, why=DATA),
        ),
    ),
    Layout(
        name="predictions after each epoch",
        source="torch.save and pickle of results",
        sets=(
            unread({"preds/predictions_epoch_<e>.pt": tensors}, why=DATA),
            unread({"preds/predictions_epoch_<e>.pkl": lambda n: made.pickle_values()}, why=DATA),
        ),
    ),
    Layout(
        name="DVC",
        source="iterative/dvc: dvc/cachemgr.py, dvc/dvcfile.py; tests/func/api/test_data.py",
        sets=(unread({".dvc/cache/files/md5/a<e>/bd18db4cc2f85cedef654fccc4a4d8": whole}, why="DVC's cache"),),
        beside={"model.pt.dvc": "outs:\n- md5: a<e>bd18db4cc2f85cedef654fccc4a4d8\n  path: model.pt\n"},
        links={"model.pt": ".dvc/cache/files/md5/a<e>/bd18db4cc2f85cedef654fccc4a4d8"},
        note="DVC can link the workspace into its cache",
    ),
    Layout(
        name="MLflow",
        source="mlflow.org: tracking/backend-stores (file store); python_api/mlflow.pytorch",
        sets=(
            weights(
                {"mlruns/0/0123abcd/artifacts/model_epoch_<e>/data/model.pth": model},
                role=None,
                why="a logged model is a result",
            ),
        ),
        beside={
            "mlruns/0/0123abcd/artifacts/model_epoch_<e>/MLmodel": "flavors: {}\n",
            "mlruns/0/0123abcd/metrics/loss": "1 2 <e>\n",
            "mlruns/0/0123abcd/meta.yaml": "run_id: 0123abcd\n",
        },
    ),
    Layout(
        name="Weights & Biases",
        source="wandb/wandb: wandb/sdk/wandb_settings.py (run_mode, sync_dir)",
        sets=(state({"ckpts/epoch_<e>.pt": whole}, "e"),),
        beside={
            "wandb/run-20261120_120000-0a1b2c3d/run-0a1b2c3d.wandb": binary("wandb"),
            "wandb/run-20261120_120000-0a1b2c3d/files/wandb-summary.json": "{}",
            "wandb/run-20261120_120000-0a1b2c3d/files/media/table/preds_<e>.table.json": "{}",
            "wandb/run-20261120_120000-0a1b2c3d/files/model.h5": Only(2, lambda n: made.h5_weights()),
        },
        links={"wandb/latest-run": "run-20261120_120000-0a1b2c3d"},
    ),
    Layout(
        name="downloads of torch.hub",
        source="docs.pytorch.org: model_zoo (load_url), hub/checkpoints",
        sets=(
            weights(
                {"hub/checkpoints/{resnet18-5c106cde,resnet50-19c8e357,vit_b_16-c867db91}.pth": model},
                role=None,
                why="downloads, each another model",
            ),
        ),
    ),
    Layout(
        name="a zoo of models",
        source="huggingface/pytorch-image-models: timm/models; names are the publisher's",
        sets=(unread({"zoo/{vit_b_16,vit_b_32,llama-7b,llama-13b}.safetensors": safetensors}, why="downloads"),),
    ),
    Layout(
        name="folds of a cross-validation and experts",
        source="none: torch.save of a script's own",
        sets=(
            weights({"folds/fold{0,1,2,3,4}.pt": model}, role=None, why="each is a result"),
            weights({"experts/expert_{0,1,2,3}.pt": model}, role=None, why="each is needed"),
        ),
    ),
    Layout(
        name="averaged weights with their decay in the name",
        source="openai/guided-diffusion: guided_diffusion/train_util.py",
        sets=(weights({"ema_0.{999,9999,99995}.pt": model}, role=None, why="a decay is no progress"),),
    ),
    Layout(
        name="exports beside states",
        source="docs.pytorch.org: onnx, jit.save, export",
        sets=(state({"step_<s>.pt": whole}, "s"),),
        beside={
            "export/model_step_<s>.onnx": binary("onnx"),
            "export/model_step_<s>.onnx.data": binary("onnx"),
            "export/model_step_<s>.engine": binary("trt"),
            "samples/sample_<s>.png": made.png(),
            "samples/sample_<s>.pt": tensors,
        },
    ),
    Layout(
        name="parameters published with a hash",
        source="open-mmlab/mmengine: mmengine/hooks/checkpoint_hook.py (published_keys)",
        sets=(weights({"epoch_<e>-{0a1b2c3d,deadbeef}.pth": torch({"state_dict": PARAMETERS})}, role=None),),
        saves=tuple(Save(e=12 * (i + 1), i=i) for i in range(3)),
    ),
)
