"""The planner: FLOPs, bytes, tiles, waves and occupancy, worked out before anything runs."""
