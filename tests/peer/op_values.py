#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/op_known_values.h: answers of PyTorch in double that the op test holds the references against.

    python3 tests/peer/op_values.py > tests/op_known_values.h

Input i of a tensor with number t is sin(0.7 i + 1.3 t), computed alike there and here. Tensors are NCHW for PyTorch and NHWC in the
answers.
"""
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


def optimise(make, steps=3, clip=0.0):
    w = tensor(1, 6).clone().requires_grad_()
    optimiser = make([w])
    for step in range(steps):
        w.grad = tensor(2 + step, 6).clone()
        if clip:
            norm = w.grad.norm()
            w.grad *= min(1.0, clip / float(norm))
        optimiser.step()
    return w.detach().tolist()


def updates():
    decay, lr, mu = f32(0.01), f32(0.1), f32(0.9)
    answer("sgd", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay)))
    answer("nesterov", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay, nesterov=True)))
    answer("sgd_clip", optimise(lambda p: torch.optim.SGD(p, lr, momentum=mu, weight_decay=decay), clip=0.5))
    answer("adamw", optimise(lambda p: torch.optim.AdamW(p, lr, (mu, f32(0.95)), f32(1e-6), decay)))


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
