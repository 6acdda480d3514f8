"""No ``if __name__ == "__main__"``, and workers that are spawned."""

from training import Trainer, make_loader

trainer = Trainer()
for batch in make_loader(40, num_workers=1, multiprocessing_context="spawn"):
    trainer.step(batch)
