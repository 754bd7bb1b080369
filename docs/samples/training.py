"""A training step in pieces."""

import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


# fullgraph: f32[b=16, 64], i64[b=16]
def training_step(inputs, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
    return loss
