"""Position embeddings of the paper's appendix D.4, and their resampling to another grid.

The additive kinds map tokens `b n d` to tokens `b n d`. Tokens come in the order class token (if any), registers,
patches in raster order; registers never have a position.
"""

from typing import Literal

import torch
from einops import einsum, rearrange, repeat
from torch import Tensor, nn
from torch.nn.functional import interpolate

from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.dense import normal_

STD = 0.02


class Additive(nn.Module):
    """Adds one vector to each token, except the registers.

    Args:
        config: a resolved config.
        grid: rows and columns of patches.
    """

    def __init__(self, config: ResolvedConfig, grid: tuple[int, int]) -> None:
        super().__init__()
        self.grid, self.width, self.registers = grid, config.width, config.registers
        self.class_token = int(config.class_token)
        self.temperature = config.position_temperature
        self.build()
        self.reset_parameters()

    def build(self) -> None:
        """Makes the parameters."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            normal_(parameter, STD)

    def vectors(self) -> Tensor:
        """Positions of the class token, if there is one, and of the patches: `1 n d`."""
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.vectors()
        if self.registers:
            first, patches = vectors[:, : self.class_token], vectors[:, self.class_token :]
            vectors = torch.cat([first, vectors.new_zeros(1, self.registers, self.width), patches], dim=1)
        return tokens + vectors.to(tokens.dtype)


class Learned(Additive):
    """One learned vector per token: 1-D positions, the paper's default."""

    def build(self) -> None:
        rows, columns = self.grid
        self.table = nn.Parameter(torch.empty(1, self.class_token + rows * columns, self.width))

    def vectors(self) -> Tensor:
        return self.table


class Learned2d(Additive):
    """Two learned tables: the first half of a vector tells the column, the second the row."""

    def build(self) -> None:
        self.rows, self.columns = (nn.Parameter(torch.empty(size, self.width // 2)) for size in self.grid)
        self.class_row = nn.Parameter(torch.empty(1, 1, self.width)) if self.class_token else None

    def vectors(self) -> Tensor:
        rows, columns = self.grid
        x = repeat(self.columns, "x d -> 1 (y x) d", y=rows)
        y = repeat(self.rows, "y d -> 1 (y x) d", x=columns)
        patches = torch.cat([x, y], dim=2)
        return patches if self.class_row is None else torch.cat([self.class_row, patches], dim=1)


class SinCos2d(Additive):
    """Fixed waves `[sin x, cos x, sin y, cos y]` as in big_vision; a class token has no position."""

    table: Tensor

    def build(self) -> None:
        rows, columns = self.grid
        table = torch.empty(1, self.class_token + rows * columns, self.width)
        self.register_buffer("table", table, persistent=False)

    def reset_parameters(self) -> None:
        rows, columns = self.grid
        device = self.table.device
        omega = frequencies(self.width, self.temperature).to(device)
        y = repeat(torch.arange(rows, device=device), "y -> (y x) 1", x=columns) * omega
        x = repeat(torch.arange(columns, device=device), "x -> (y x) 1", y=rows) * omega
        self.table.zero_()
        self.table[0, self.class_token :] = torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=1)

    def vectors(self) -> Tensor:
        return self.table


def frequencies(width: int, temperature: float) -> Tensor:
    """Returns the angles per patch of the waves of a token, `(width / 4,)`, from 1 down to 1 / temperature."""
    quarter = width // 4
    return temperature ** -(torch.arange(quarter) / max(quarter - 1, 1))


class Relative(nn.Module):
    """Attention logits from the offset between query and key, as seen by the query's content (paper, appendix D.4).

    The paper leaves two things open; here one table per layer serves all heads, and every token of the sequence, prefix
    tokens too, counts as one place of the raster order.

    Args:
        tokens: length n of the sequence.
        head_width: width k of a head.
    """

    def __init__(self, tokens: int, head_width: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.table = nn.Parameter(torch.empty(2 * tokens - 1, head_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        normal_(self.table, STD)

    def forward(self, queries: Tensor) -> Tensor:
        """Returns the logits `b h n n` to add for queries `b h n k`, scaled like the content's."""
        # Row i of `keys` holds, for every key j, the vector of offset i - j, stored at i - j + n - 1.
        keys = self.table.unfold(0, self.tokens, 1).flip(-1)
        return einsum(queries * queries.shape[-1] ** -0.5, keys, "b h i k, i k j -> b h i j")


def additive(config: ResolvedConfig, grid: tuple[int, int]) -> nn.Module:
    """Returns the module that adds the config's positions to tokens; it does nothing for relative ones or none."""
    kinds = {"learned": Learned, "learned_2d": Learned2d, "sincos_2d": SinCos2d}
    return kinds[config.position](config, grid) if config.position in kinds else nn.Identity()


def resample(
    table: Tensor,
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    prefix: int = 1,
    mode: Literal["bilinear", "bicubic"] = "bilinear",
) -> Tensor:
    """Returns a position table `1 n d` for another grid of patches (paper, section 3.2).

    Args:
        table: positions of the prefix tokens, then of the patches in raster order.
        old_grid: rows and columns that the table was made for.
        new_grid: rows and columns wanted; an equal grid gives the very same tensor.
        prefix: number of leading rows that belong to no patch and stay untouched.
        mode: "bilinear" with aligned corners is the official rule (scipy's zoom of order 1); "bicubic" with
            antialiasing is timm's.
    """
    if tuple(old_grid) == tuple(new_grid):
        return table
    rows, columns = old_grid
    grid = rearrange(table[:, prefix:].float(), "1 (y x) d -> 1 d y x", y=rows, x=columns)
    if mode == "bilinear":
        grid = interpolate(grid, size=tuple(new_grid), mode="bilinear", align_corners=True)
    else:
        grid = interpolate(grid, size=tuple(new_grid), mode="bicubic", antialias=True)
    return torch.cat([table[:, :prefix], rearrange(grid, "1 d y x -> 1 (y x) d").to(table.dtype)], dim=1)
