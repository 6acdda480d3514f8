"""No ``if __name__ == "__main__"``, no workers, and a start method that runs the script again."""

import multiprocessing

from training import Trainer, make_loader

multiprocessing.set_start_method("spawn", force=True)
trainer = Trainer()
for batch in make_loader(200, 0.001):
    trainer.step(batch)
print("trained", trainer.steps)
