"""The values Muster speaks in: amounts, labels, nodes, jobs. Pure; imports nothing of Muster but itself."""
