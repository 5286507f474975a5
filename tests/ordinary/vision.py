"""Networks for images: classification, segmentation, detection."""

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import Tensor, nn

from tests.ordinary.bench import Ordinary, ordinary

IMAGES = {0: "batch", 2: "height", 3: "width"}


def conv_bn(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        relu = nn.ReLU(inplace=True)
        self.body = nn.Sequential(conv_bn(inputs, outputs, 3, stride), relu, conv_bn(outputs, outputs))
        same = (inputs, stride) == (outputs, 1)
        self.shortcut = nn.Identity() if same else conv_bn(inputs, outputs, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.body(x) + self.shortcut(x))


class ResidualNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.blocks = conv_bn(3, 16, 3, 2), nn.Sequential(Residual(16, 16), Residual(16, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.blocks(F.relu(self.stem(image))).mean((2, 3)))


@ordinary
def residual_network() -> Ordinary:
    draw = torch.rand
    return Ordinary(
        ResidualNetwork().eval(), (draw(2, 3, 32, 32),), [(draw(1, 3, 32, 32),), (draw(5, 3, 32, 32),)],
        shapes={"image": {0: "batch"}},
    )  # fmt: skip


class InvertedResidual(nn.Module):
    def __init__(self, channels: int = 16, expanded: int = 48):
        super().__init__()
        self.expand, self.depthwise = (
            conv_bn(channels, expanded, 1),
            conv_bn(expanded, expanded, groups=expanded),
        )
        self.squeeze, self.excite = nn.Conv2d(expanded, 8, 1), nn.Conv2d(8, expanded, 1)
        self.project = conv_bn(expanded, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.depthwise(F.relu6(self.expand(x))))
        gate = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))).sigmoid()
        return x + self.project(y * gate)


@ordinary
def depthwise_block() -> Ordinary:
    draw = torch.rand
    return Ordinary(
        InvertedResidual().eval(), (draw(2, 16, 16, 20),), [(draw(3, 16, 16, 20),), (draw(1, 16, 9, 11),)],
        shapes={"x": IMAGES},
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outer, self.inner = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.join, self.out = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.relu(self.outer(x))
        up = self.up(F.relu(self.inner(F.max_pool2d(skip, 2))))
        down, right = skip.size(2) - up.size(2), skip.size(3) - up.size(3)
        up = F.pad(up, [right // 2, right - right // 2, down // 2, down - down // 2])
        return self.out(F.relu(self.join(torch.cat([skip, up], 1))))


@ordinary
def unet() -> Ordinary:
    draw = torch.rand
    return Ordinary(
        UNet().eval(), (draw(2, 1, 24, 32),), [(draw(1, 1, 40, 16),), (draw(1, 1, 25, 33),)],
        shapes={"x": IMAGES},
    )  # fmt: skip


class Detector(nn.Module):
    """A feature pyramid of two levels and one head for both, as a dictionary; the grid follows the size."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.lateral, self.head = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 9, 1)

    def level(self, features: Tensor, stride: int) -> Tensor:
        height, width = features.shape[-2:]
        rows = torch.arange(height, device=features.device)
        columns = torch.arange(width, device=features.device)
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        centre = torch.stack([x, y], -1).reshape(1, -1, 2).to(features.dtype)
        raw = self.head(features).flatten(2).transpose(1, 2)
        middle, size = (centre + raw[..., :2].sigmoid()) * stride, raw[..., 2:4].exp() * stride
        return torch.cat([middle - size / 2, middle + size / 2, raw[..., 4:].sigmoid()], -1)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        fine = F.silu(self.fine(images))
        coarse = F.silu(self.coarse(fine))
        fine = self.lateral(fine) + F.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
        rows = torch.cat([self.level(fine, 2), self.level(coarse, 4)], 1)
        scores, labels = rows[..., 4:].max(-1)
        return {"boxes": rows[..., :4], "scores": scores, "labels": labels, "sure": scores > 0.6}


@ordinary
def detector_neck_and_head() -> Ordinary:
    return Ordinary(
        Detector().eval(),
        (torch.rand(2, 3, 16, 24),),
        [(torch.rand(3, 3, 32, 16),)],
        shapes={"images": IMAGES},
    )


class Suppression(nn.Module):
    """Keeps the boxes above a score that overlap no better one too much (fast NMS, as in YOLACT)."""

    def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        order = scores.argsort(descending=True)
        boxes, scores = boxes[order], scores[order]
        corner, opposite = boxes[:, :2], boxes[:, 2:]
        inner = torch.minimum(opposite[:, None], opposite[None]) - torch.maximum(
            corner[:, None], corner[None]
        )
        shared, area = inner.clamp(min=0).prod(-1), (opposite - corner).prod(-1)
        overlap = shared / (area[:, None] + area[None] - shared)
        keep = (overlap.triu(1) > 0.5).sum(0) == 0
        keep = keep & (scores > 0.3)
        return boxes[keep], scores[keep]


def boxes_and_scores(count: int, best: float = 1.0) -> tuple[Tensor, Tensor]:
    corner = torch.rand(count, 2) * 20
    return torch.cat([corner, corner + 4 + torch.rand(count, 2) * 8], 1), torch.rand(count) * best


@ordinary
def non_maximum_suppression() -> Ordinary:
    return Ordinary(
        Suppression(), boxes_and_scores(12), [boxes_and_scores(40), boxes_and_scores(7, best=0.2)],
        shapes={"boxes": {0: "count"}, "scores": {0: "count"}},
    )  # fmt: skip


class Embedder(nn.Module):
    """A network for faces or sentences: group and RMS norm, and a vector of length 1 at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.group, self.norm = nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.RMSNorm(16)
        self.out = nn.Linear(16, 16)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.group(self.conv(image))).mean((2, 3))
        return F.normalize(self.out(self.norm(x)), dim=-1)


@ordinary
def normalised_embedding() -> Ordinary:
    return Ordinary(
        Embedder().eval(), (torch.rand(2, 3, 12, 12),), [(torch.rand(3, 3, 20, 9),)], shapes={"image": IMAGES}
    )


class Upscaler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.shuffle = (
            nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.PReLU(16)),
            nn.PixelShuffle(2),
        )
        self.up = nn.ConvTranspose2d(4, 1, 4, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(
            F.interpolate(x, scale_factor=4, mode="bicubic") + self.up(self.shuffle(self.body(x))), 0, 1
        )


@ordinary
def super_resolution() -> Ordinary:
    return Ordinary(
        Upscaler().eval(), (torch.rand(1, 1, 12, 10),), [(torch.rand(2, 1, 9, 13),)], shapes={"x": IMAGES}
    )


@ordinary
def channels_last() -> Ordinary:
    def draw(*shape: int) -> tuple[Tensor]:
        return (torch.rand(shape).to(memory_format=torch.channels_last),)

    conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last).eval()
    return Ordinary(
        conv, draw(2, 3, 8, 9), [(torch.rand(1, 9, 8, 3).permute(0, 3, 2, 1),)], shapes={"input": IMAGES}
    )
