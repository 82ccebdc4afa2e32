"""The decode stage: turns payloads into typed columns, and sets undecodable payloads aside with the reason.

Jobs call `stage`; `decoder` defines the interface of a format, and each format has a module. The jobs provide the rows,
and store the undecodable ones. Nothing here connects to a gateway.
"""
