"""A training script as people write them: two loaders, epochs, a scheduler that counts steps."""

import sys

import torch
from torch.utils.data import DataLoader
from training import Numbers, Trainer

if __name__ == "__main__":
    torch.set_num_threads(1)
    epochs, items = int(sys.argv[1]), int(sys.argv[2])
    train_set = Numbers(items, 0.001)
    loader = DataLoader(train_set, batch_size=4, shuffle=True)
    test_loader = DataLoader(Numbers(8), batch_size=8)
    trainer = Trainer()
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        trainer.optimizer, max_lr=0.1, total_steps=epochs * len(loader)
    )
    trainer.test(test_loader)
    for _ in range(epochs):
        count = 0
        for batch in loader:
            trainer.step(batch)
            scheduler.step()
            count += 1
        assert count == len(loader), "an epoch keeps its length"
        trainer.test(test_loader)
    print("trained", trainer.steps)
