"""Events in, snapshot out. One writer owns a State; readers get frozen snapshots."""
