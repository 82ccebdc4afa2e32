"""The decode stage: payloads become typed columns, and a payload that does not is set aside with the reason.

`stage` is what jobs call; `decoder` says what a format has to do, and each format has a file. Where rows come from, and
where those that were set aside go, is the jobs' matter. Nothing here connects to a gateway.
"""
