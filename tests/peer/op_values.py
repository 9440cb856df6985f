#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/op_known_values.h: answers of PyTorch in double that the op test holds the references
against.

    python3 tests/peer/op_values.py > tests/op_known_values.h

Input i of a tensor with number t is sin(0.7 i + 1.3 t), computed alike there and here. Tensors are
NCHW for PyTorch and NHWC in the answers."""
import math

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def tensor(number, *shape):
    """NHWC numbers of that shape as an NCHW tensor (or a flat one)."""
    count = math.prod(shape)
    flat = torch.tensor([math.sin(0.7 * i + 1.3 * number) for i in range(count)]).reshape(shape)
    return flat.permute(0, 3, 1, 2) if len(shape) == 4 else flat


def nhwc(x):
    return (x.permute(0, 2, 3, 1) if x.dim() == 4 else x).reshape(-1).tolist()


ANSWERS = []


def answer(name, values):
    ANSWERS.append((name, values))


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def convolution():
    x, b = tensor(1, 1, 5, 6, 4), tensor(3, 4)
    w = tensor(2, 4, 3, 3, 2)
    answer("conv", nhwc(F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)))


def batch_norm():
    x, gamma, beta = tensor(1, 2, 2, 2, 3), tensor(2, 3), tensor(3, 3)
    mean, var = tensor(4, 3), tensor(5, 3) + 2
    answer("bn_eval", nhwc(F.batch_norm(x, mean, var, gamma, beta, False, 0, f32(1e-5))))
    answer("bn_train", nhwc(F.batch_norm(x, mean, var, gamma, beta, True, f32(0.1), f32(1e-5))))
    answer("bn_run_mean", mean.tolist())
    answer("bn_run_var", var.tolist())


def pools():
    x = tensor(1, 1, 5, 5, 2)
    answer("max_pool", nhwc(F.max_pool2d(x, 3, 2, 1)))
    answer("avg_pool", nhwc(F.avg_pool2d(x, 3, 2, 1)))
    answer("avg_pool_inside", nhwc(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)))


def element_wise():
    x = 5 * tensor(1, 9)
    answer("relu", F.relu(x).tolist())
    answer("relu6", F.relu6(x).tolist())
    answer("sigmoid", torch.sigmoid(x).tolist())
    answer("tanh", torch.tanh(x).tolist())
    answer("leaky", F.leaky_relu(x, 0.1875).tolist())
    y = tensor(1, 1, 2, 1, 7)
    answer("lrn5", nhwc(F.local_response_norm(y, 5, f32(0.5), f32(0.75), 2.0)))
    answer("lrn4", nhwc(F.local_response_norm(y, 4, f32(0.5), f32(0.75), 2.0)))


def losses():
    x, label = 3 * tensor(1, 3, 5), torch.tensor([4, 0, 2])
    answer("softmax", torch.softmax(x, 1).reshape(-1).tolist())
    answer("ce", F.cross_entropy(x, label, reduction="none", label_smoothing=f32(0.1)).tolist())
    partner, own = label[[1, 2, 0]], f32(0.6)

    def smooth(target):
        return F.cross_entropy(x, target, reduction="none", label_smoothing=f32(0.1))

    answer("ce_mix", (own * smooth(label) + (1 - own) * smooth(partner)).tolist())
    answer("mse", ((x - F.one_hot(label, 5)) ** 2).mean(1).tolist())
    mixed = own * F.one_hot(label, 5) + (1 - own) * F.one_hot(partner, 5)
    answer("mse_mix", ((x - mixed) ** 2).mean(1).tolist())


class Lars(torch.optim.Optimizer):
    """You, Gitman, Ginsburg 2017 (arXiv:1708.03888), algorithm 1; unscaled: rate and ratio outside of the momentum, as in
    Kumar et al. 2019 (arXiv:1909.09756)."""

    def __init__(self, params, lr, momentum, decay, eta, unscaled=False):
        super().__init__(params, dict(lr=lr, momentum=momentum, decay=decay, eta=eta, unscaled=unscaled))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                v = self.state[p].setdefault("v", torch.zeros_like(p))
                ratio = group["eta"] * p.norm() / (p.grad.norm() + group["decay"] * p.norm())
                rate, g = group["lr"] * ratio, p.grad + group["decay"] * p
                v.mul_(group["momentum"]).add_(g if group["unscaled"] else rate * g)
                p.sub_(rate * v if group["unscaled"] else v)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020 (arXiv:1904.00962), algorithm 2, where phi is the identity."""

    def __init__(self, params, lr, betas, eps, decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                s["t"] = s.get("t", 0) + 1
                m = s.setdefault("m", torch.zeros_like(p)).mul_(b1).add_((1 - b1) * p.grad)
                v = s.setdefault("v", torch.zeros_like(p)).mul_(b2).add_((1 - b2) * p.grad ** 2)
                u = m / (1 - b1 ** s["t"]) / ((v / (1 - b2 ** s["t"])).sqrt() + group["eps"]) + group["decay"] * p
                p.sub_(group["lr"] * p.norm() / u.norm() * u)


def optimise(make, steps=3, clip=0.0, each=False):
    w = tensor(1, 6).clone().requires_grad_()
    optimiser, seen = make([w]), []
    for step in range(steps):
        w.grad = tensor(2 + step, 6).clone()
        if clip:
            norm = w.grad.norm()
            w.grad *= min(1.0, clip / float(norm))
        optimiser.step()
        seen += w.detach().tolist()
    return seen if each else w.detach().tolist()


def updates():
    decay, lr, mu = f32(0.01), f32(0.1), f32(0.9)
    answer("sgd", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay)))
    answer("nesterov", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay, nesterov=True)))
    answer("sgd_clip", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay), clip=0.5))
    answer("adamw", optimise(lambda p: torch.optim.AdamW(p, lr, (mu, f32(0.95)), f32(1e-6), decay)))
    eta, betas, eps = f32(0.02), (mu, f32(0.95)), f32(1e-6)
    answer("lars", optimise(lambda p: Lars(p, lr, mu, decay, eta), each=True))
    answer("lars_unscaled", optimise(lambda p: Lars(p, lr, mu, decay, eta, True), each=True))
    answer("lars_clip", optimise(lambda p: Lars(p, lr, mu, decay, eta), clip=0.5, each=True))
    answer("lamb", optimise(lambda p: Lamb(p, lr, betas, eps, decay), each=True))
    answer("lamb_clip", optimise(lambda p: Lamb(p, lr, betas, eps, decay), clip=0.5, each=True))


def main():
    for part in (convolution, batch_norm, pools, element_wise, losses, updates):
        part()
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Answers of PyTorch in double, made by tests/peer/op_values.py. */")
    print("#ifndef GY_OP_KNOWN_VALUES_H\n#define GY_OP_KNOWN_VALUES_H\n")
    for name, values in ANSWERS:
        print(f"static const double torch_{name}[] = {{")
        line = "   "
        for value in values:
            text = f" {value:.12g},"
            if len(line) + len(text) > 118:
                print(line)
                line = "   "
            line += text
        print(line + "\n};")
    print("\n#endif")


if __name__ == "__main__":
    main()
