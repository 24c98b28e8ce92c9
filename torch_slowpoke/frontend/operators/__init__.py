"""Operator semantics by table: one row an ATen operator, by its packet name."""

from __future__ import annotations

from torch_slowpoke.frontend.call import Row
from torch_slowpoke.frontend.operators.convolution import ROWS as CONVOLUTION
from torch_slowpoke.frontend.operators.elementwise import ROWS as ELEMENTWISE
from torch_slowpoke.frontend.operators.joining import ROWS as JOINING
from torch_slowpoke.frontend.operators.matmul import ROWS as MATMUL
from torch_slowpoke.frontend.operators.moves import ROWS as MOVES
from torch_slowpoke.frontend.operators.norm import ROWS as NORM
from torch_slowpoke.frontend.operators.pool import ROWS as POOL
from torch_slowpoke.frontend.operators.recurrent import ROWS as RECURRENT
from torch_slowpoke.frontend.operators.reduce import ROWS as REDUCE
from torch_slowpoke.frontend.operators.resize import ROWS as RESIZE
from torch_slowpoke.frontend.operators.views import ROWS as VIEWS

TABLE: dict[str, Row] = {
    **VIEWS,
    **CONVOLUTION,
    **POOL,
    **MATMUL,
    **ELEMENTWISE,
    **NORM,
    **REDUCE,
    **RESIZE,
    **JOINING,
    **MOVES,
    **RECURRENT,
}
"""Packet name -> row. In-place variants (`relu_`) use the row of the plain name."""
