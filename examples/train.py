"""The smallest complete training script: a spiral of three classes, on the accelerator if there is one.

Nothing in it belongs to this project. `torch.accelerator` finds the device, and the script runs unchanged on a CPU, a
GPU or a TPU.
"""

import torch
from torch import nn

device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
print("training on", device)
torch.manual_seed(0)

# 300 points [N, 2] on three arms, and the arm of each [N].
arm = torch.arange(3).repeat_interleave(100)
radius = torch.linspace(0.1, 1, 100).repeat(3)
angle = radius * 5 + arm * 2.1 + torch.randn(300) * 0.1
points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)

model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x, y = points.to(device), arm.to(device)

for step in range(201):
    optimizer.zero_grad()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        # .item() brings a value to the host, and so waits for the device: do it rarely.
        accuracy = (logits.argmax(1) == y).float().mean()
        print(f"step {step:3}  loss {loss.item():.4f}  accuracy {accuracy.item():.1%}")

torch.save(model.state_dict(), "/tmp/spiral.pt")
copy = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
copy.load_state_dict(torch.load("/tmp/spiral.pt", map_location="cpu"))
print("on the CPU:", (copy(points).argmax(1) == arm).float().mean().item())
