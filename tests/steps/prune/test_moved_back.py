"""What a person takes out of the directory of a run and brings back stays."""

from ckptd.core.retention import KeepLast
from support.prune_facts import make_policy, make_site, workshop


def test_what_is_moved_away_and_back_stays():
    with workshop() as shop:
        shop.site = make_site(shop.root, make_policy(KeepLast(1)))
        shop.start_job()
        shop.train(range(1, 4))
        away = shop.root / "away.npz"
        (shop.directory / "epoch_2.npz").rename(away)
        shop.wait(5)
        shop.look()
        shop.train([4])
        away.rename(shop.directory / "epoch_2.npz")
        shop.wait(5)
        shop.look()
        shop.train([5, 6])
        shop.wait(60)
        assert shop.act().moved_count == 4
        assert shop.names() == ["epoch_2.npz", "epoch_6.npz"]


def test_what_is_moved_back_after_those_beside_it_were_pruned_stays():
    with workshop() as shop:
        shop.site = make_site(shop.root, make_policy(KeepLast(1)))
        shop.start_job()
        shop.train(range(1, 4))
        away = shop.root / "away.npz"
        (shop.directory / "epoch_2.npz").rename(away)
        shop.wait(5)
        shop.look()
        shop.train([4, 5, 6])
        shop.wait(60)
        assert shop.act().moved_count == 4
        away.rename(shop.directory / "epoch_2.npz")
        shop.wait(5)
        shop.look()
        shop.train([7])
        shop.wait(60)
        assert shop.act().moved_count == 1
        assert shop.names() == ["epoch_2.npz", "epoch_7.npz"]
