"""How numba makes machine code of a kernel: in one piece with all kernels it calls.

By itself numba optimizes every function together with all that it calls, makes machine code of it, and wraps it for
Python and for C: with calls nine deep the innermost are done over and over. Here only what Python calls is treated so
(`entry`). Kernels that are called by kernels (`part`) stop half-way, as code that becomes a part of an entry.

Nobody counts references to arrays: whoever calls an entry holds them until it returns, and it returns none. Nor are
numbers written in a call types of their own, or `step(amount, 4)` and `step(amount, 1)` would be compiled apart.

Imports numba, so import it late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


def entry(function: Callable[..., object], *, cache: bool) -> Any:
    """The function as machine code for Python to call."""
    return numba.njit(nogil=True, _nrt=False, no_cfunc_wrapper=True, cache=cache, pipeline_class=_Whole)(function)


def part(function: Callable[..., object]) -> Any:
    """The function for entries and other parts to call."""
    compiles = numba.njit(_nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, pipeline_class=_Part)
    dispatcher = compiles(function)
    if not numba.config.DISABLE_JIT:
        by_types = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: by_types(tuple(map(numba.types.unliteral, args)), kws)
    return dispatcher


class _Whole(Compiler):  # type: ignore[misc]  # numba has no types
    """Compiles an entry."""

    def compile_extra(self, function: Callable[..., object]) -> Any:
        result = super().compile_extra(function)
        returned = self.state.targetctx.data_model_manager[result.signature.return_type]
        if returned.contains_nrt_meminfo():
            raise TypeError(f"{function.__name__} returns an array: to Python, kernels return numbers only")
        for env in result._find_referenced_environments():  # with those of its parts
            result.library.codegen.set_env(env.env_name, env)
        return result


class _Part(Compiler):  # type: ignore[misc]
    """Compiles a part."""

    def define_pipelines(self) -> Any:
        self.state.library = _Unfinished(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Unfinished(JITCodeLibrary):  # type: ignore[misc]
    """Code that entries link in: not optimized, not loaded, without an address."""

    @property
    def codegen(self) -> _Unfinished:
        return self

    def set_env(self, name: str, env: object) -> None:
        """The entry sets it: only there is a place for it. (`print` needs one.)"""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True
