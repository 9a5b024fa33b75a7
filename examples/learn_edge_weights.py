"""Learn how strongly memories depend on each other from what was seen to become invalid.

Six memories, seven edges of unknown weight.  Each of the 8 ways to overturn some of the first three was
seen 5,000 times, with how often each memory turned out invalid.  Needs the extra "torch".
"""

import torch

from validity_graph.kernels.message_passing import NoisyOr

edge_index = torch.tensor([[0, 1, 1, 2, 3, 4, 0], [3, 3, 4, 4, 5, 5, 5]])
supports = torch.tensor([False, False, True, True, False, True, True])
true_weight = torch.tensor([0.9, 0.4, 0.8, 0.6, 0.7, 0.5, 0.3])


def learn(*, seed: int = 0) -> torch.Tensor:
    """Return the learned weights, in the order of ``edge_index``."""
    generator = torch.Generator().manual_seed(seed)
    direct = torch.zeros(6, 8)
    direct[:3] = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3).T
    layer = NoisyOr(rounds=2)
    invalid = layer(direct, edge_index, true_weight, supports=supports)
    observed = torch.binomial(torch.full_like(invalid, 5000), invalid, generator=generator) / 5000
    logit = torch.zeros(7, requires_grad=True)
    optimizer = torch.optim.LBFGS([logit], max_iter=50, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        predicted = layer(direct, edge_index, logit.sigmoid(), supports=supports).clamp(1e-6, 1 - 1e-6)
        difference = torch.nn.functional.binary_cross_entropy(predicted, observed)
        difference.backward()
        return difference

    optimizer.step(loss)
    return logit.detach().sigmoid()


if __name__ == "__main__":
    for source, target, true, learned in zip(*edge_index.tolist(), true_weight, learn(), strict=True):
        print(f"{source} -> {target}: true {true:.2f}, learned {learned:.2f}")
