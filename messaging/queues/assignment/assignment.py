"""Which flow owns which partition: balanced, sticky, moving as little as it can."""


def assign_partitions(owners: list[int], flow_ids: list[int]) -> list[int]:
    """Return the new owner of each partition: a flow id, or 0 where there is no flow at all.

    `owners[p]` is the present owner of partition p (0: none); `flow_ids` are the bound flows, oldest first. Every flow
    that owns anything afterwards owns `floor(P / F)` or `ceil(P / F)` partitions, where F is the number of flows that
    can own one; surplus flows own none, the youngest idle ones first. No assignment with that balance moves fewer
    partitions away from a present owner.
    """
    partitions_count = len(owners)
    if not flow_ids or partitions_count == 0:
        return [0] * partitions_count
    held: dict[int, list[int]] = {flow_id: [] for flow_id in flow_ids}
    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    # Flows that hold most keep most; among equals the older one goes first. So surplus partitions stay where they are.
    order = {flow_id: place for place, flow_id in enumerate(flow_ids)}
    ranked = sorted(flow_ids, key=lambda flow_id: (-len(held[flow_id]), order[flow_id]))
    active = ranked[:partitions_count]
    smallest, larger_count = divmod(partitions_count, len(active))
    result = [0] * partitions_count
    room: list[tuple[int, int]] = []
    for rank, flow_id in enumerate(active):
        size = smallest + (1 if rank < larger_count else 0)
        kept = held[flow_id][:size]
        for partition in kept:
            result[partition] = flow_id
        if len(kept) < size:
            room.append((flow_id, size - len(kept)))
    free = [partition for partition in range(partitions_count) if result[partition] == 0]
    taken = 0
    for flow_id, missing in room:
        for partition in free[taken : taken + missing]:
            result[partition] = flow_id
        taken += missing
    return result
