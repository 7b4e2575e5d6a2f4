"""Names that differ from job to job: of -o, --error, and --fetch with the queue. Pure."""


def fill_in(pattern: bytes, job: str, index: int | None, host: str) -> bytes:
    """%j job id, %a array index, %h host, %% a per cent sign; any other stays as it is."""
    meanings = {
        b"j": job.encode(),
        b"a": b"%d" % index if index is not None else b"",
        b"h": host.encode(),
        b"%": b"%",
    }
    first, *rest = pattern.split(b"%")
    parts = [first]
    while rest:
        part = rest.pop(0)
        if not part and rest:  # %%
            parts.append(b"%" + rest.pop(0))
        else:
            parts.append(meanings.get(part[:1], b"%" + part[:1]) + part[1:])
    return b"".join(parts)
