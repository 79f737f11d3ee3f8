"""Epochs and steps in the names that frameworks document, and in those that people give in public repositories."""

import pytest

from ckptd.checkpoints.formats import checkpoint_names, keras_names

# name, epoch, step: None where nobody can tell from the name
OF_TORCH = [
    # Lightning
    ("epoch=3-step=400.ckpt", 3, 400),
    ("epoch=0-step=0-v2.ckpt", 0, 0),
    ("sample-mnist-epoch=02-val_loss=0.32.ckpt", 2, None),
    ("hpc_ckpt_3.ckpt", None, None),
    ("last-v1.ckpt", None, None),
    # Ignite
    ("best_model_5_acc=0.7383.pt", 5, None),
    ("best_model_2_neg_loss=-0.55.pt", 2, None),
    ("checkpoint_global_step=100.pt", None, 100),
    # timm
    ("checkpoint-12.pth.tar", 12, None),
    ("recovery-3-4500.pth.tar", 3, None),
    # fairseq
    ("checkpoint12.pt", 12, None),
    ("checkpoint_3_15000.pt", 3, 15000),
    ("checkpoint_12_34000-shard3.pt", 12, 34000),
    ("checkpoint1-shard0.pt", 1, None),
    ("checkpoint_best-shard0.pt", None, None),
    ("checkpoint.best_bleu_34.50.pt", None, None),
    # NeMo
    ("megatron_gpt--val_loss=2.35-step=5000-consumed_samples=40000.0.ckpt", None, 5000),
    ("stt_en--val_wer=0.1234-epoch=19-last.ckpt", 19, None),
    # OpenMMLab, Detectron2
    ("epoch_12.pth", 12, None),
    ("iter_16000.pth", None, 16000),
    ("best_coco_bbox_mAP_epoch_11.pth", 11, None),
    ("best_mIoU_iter_80000.pth", None, 80000),
    ("model_0004999.pth", None, 4999),
    ("model_final.pth", None, None),
    # Ultralytics
    ("epoch10.pt", 10, None),
    ("yolov5s6.pt", None, None),
    # torch.hub: the hash has `ba61`
    ("resnet50-0676ba61.pth", None, None),
    # Composer
    ("ep1-ba250-rank0.pt", 1, 250),
    ("latest-rank0.pt", None, None),
    # Hugging Face's shards outside their set
    ("pytorch_model-00001-of-00003.bin", None, None),
    # ESPnet, icefall
    ("12epoch.pth", 12, None),
    ("valid.acc.ave_10best.pth", None, None),
    ("epoch-30-avg-9.pt", 30, None),
    ("checkpoint-144000.pt", None, 144000),
    # AllenNLP
    ("model_state_epoch_4.th", 4, None),
    ("training_state_e4_b0.th", 4, None),
    # CycleGAN, BasicSR, VITS, guided-diffusion
    ("50_net_G.pth", 50, None),
    ("latest_net_G.pth", None, None),
    ("net_g_5000.pth", None, 5000),
    ("G_12000.pth", None, 12000),
    ("model010000.pt", None, 10000),
    ("ema_0.9999_010000.pt", None, 10000),
    # people's
    ("checkpoint_ep12.pth.tar", 12, None),
    ("ckpt_ep-3_it-400.pt", 3, 400),
    ("model_epoch12_iter3000.pth", 12, 3000),
    ("netG_epoch_24.pth", 24, None),
    ("E12.pth", 12, None),
    ("12.pt", None, None),
    ("model_seed42.pt", None, None),
    ("llama-7b.pth", None, None),
    # numbers that are no progress beside some that are
    ("3e-4_model.pt", None, None),
    ("model_lr3e-4_epoch5.pt", 5, None),
    ("epoch1e3.pt", None, None),
    ("resnet_e100_epoch5.pth", 5, None),
    ("epochs100_epoch5.pth", 5, None),
    ("max_epoch90_ep7.pth", 7, None),
    ("total_steps1000_step50.pth", None, 50),
    ("epoch=1.5.ckpt", None, None),
    ("epoch-3.5-step-700.pt", None, 700),
    ("epoch010.0.91.pt", 10, None),
    # measured values with and without a word
    ("m_5_0.91.pt", 5, None),
    ("w-03-0.44.pt", 3, None),
    ("e3-l0.442.ckpt", 3, None),
    ("E07_L0.442.pt", 7, None),
    ("model_5_dice_0.390.pt", 5, None),
    ("net_12_0.390_acc.pt", 12, None),
    ("ckpt_4_vl0.31.pt", 4, None),
    ("model-009-valacc0.91.pt", 9, None),
    ("model_4_val-0.31.pt", 4, None),
    # settings, folds and versions with a fraction
    ("model_50_lr_0.1.pt", None, None),
    ("model_2_dropout0.5.pt", None, None),
    ("v5-0.39.pt", None, None),
    ("f1-0.93.pt", None, None),
    ("resnet_50_0.76.pt", None, None),
    ("fold_1_0.91.pt", None, None),
]
OF_KERAS = [
    ("weights.02-0.15.hdf5", 2, None),
    ("weights-improvement-12-0.81.hdf5", 12, None),
    ("cp-0005.ckpt", 5, None),
    ("model.05-0.23.h5", 5, None),
    ("ep010-loss12.34-val_loss13.22.h5", 10, None),
    ("model_at_epoch_4.keras", 4, None),
    ("save_at_4.keras", 4, None),
    ("10-0.33.h5", 10, None),
    ("3.weights.h5", 3, None),
    ("ckpt-01-4.4445.weights.h5", 1, None),
    ("model_05_0.23.h5", 5, None),
    ("12.h5", None, None),
    ("model-2.5.h5", None, None),
    ("ckpt-7.weights.h5", 7, None),
    ("weights.best.hdf5", None, None),
    ("vgg16_weights.h5", None, None),
    ("resnet50-0.85.h5", None, None),
    ("w.03-0.44.weights.h5", 3, None),
    ("w-12-0.44.weights.h5", 12, None),
    ("w_03_0.44.h5", 3, None),
    ("weights.05-0.31.h5", 5, None),
    ("weights.05-loss0.31.h5", 5, None),
    ("model.07-0.31.keras", 7, None),
    ("ep012-loss4.123-val_loss4.001.h5", 12, None),
    ("0005-l0.390-vl0.391.keras", 5, None),
    ("net-11-0.8300.h5", 11, None),
    ("best-11-0.83.h5", 11, None),
    ("resnet-50-0.85.h5", None, None),
    ("vgg-16-0.92.weights.h5", None, None),
]


@pytest.mark.parametrize(("name", "epoch", "step"), OF_TORCH)
def test_epoch_and_step_are_read_from_the_names_of_torch_s_frameworks(name, epoch, step):
    found = checkpoint_names.parse_name(name, bare="epoch")
    assert (found.epoch, found.step) == (epoch, step)


@pytest.mark.parametrize(("name", "epoch", "step"), OF_KERAS)
def test_epoch_and_step_are_read_from_the_names_of_keras_s_callbacks(name, epoch, step):
    found = checkpoint_names.parse_name(name, bare="epoch")
    of_callback = keras_names.epoch_of_name(name)
    assert (found.epoch if of_callback is None else of_callback, None if of_callback else found.step) == (epoch, step)


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("ep012-loss4.123-val_loss4.001.h5", {"loss": 4.123, "val_loss": 4.001}),
        ("e3-l0.442.ckpt", {"l": 0.442}),
        ("E03_L0.44_VL0.45.pt", {"L": 0.44, "VL": 0.45}),
        ("model_5_dice_0.390.pt", {"dice": 0.39}),
        ("cnn_02_valacc0.23.h5", {"valacc": 0.23}),
        ("w.03-0.44.weights.h5", {}),
        ("model_lr0.1.pt", {}),
        ("model0.25.pt", {}),
    ],
)
def test_measured_values_are_read_by_the_word_before_them(name, metrics):
    assert checkpoint_names.parse_name(name).metrics == metrics
