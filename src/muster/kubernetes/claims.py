"""Which pods use which claims of volumes: of a ReadWriteOncePod volume only one pod at a time may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.kubernetes.objects import Key, Pod, Volume


def claims_of(pod: Pod) -> Iterator[Key]:
    """The claims of its volumes."""
    for volume in pod.spec.volumes:
        if (name := claim_name(pod, volume)) is not None:
            yield pod.metadata.namespace, name


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim of a volume, which may be made for the pod alone; None if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


class Users:
    """The pods that are on nodes, or will be, by the claims that they use."""

    def __init__(self) -> None:
        self._of: dict[Key, set[Key]] = {}

    def put(self, pod: Pod) -> None:
        """A pod uses its claims."""
        for claim in claims_of(pod):
            self._of.setdefault(claim, set()).add(pod.metadata.key)

    def remove(self, pod: Pod) -> list[Key]:
        """It does no more; the claims that nobody uses now."""
        unused = []
        for claim in claims_of(pod):
            if (there := self._of.get(claim)) is not None:
                there.discard(pod.metadata.key)
                if not there:
                    del self._of[claim]
                    unused.append(claim)
        return unused

    def besides(self, pod: Pod, claim: Key) -> Iterable[Key]:
        """Other pods that use a claim."""
        return sorted(self._of.get(claim, set()) - {pod.metadata.key})
