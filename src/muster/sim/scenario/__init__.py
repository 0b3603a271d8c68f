"""Scenario files: a small world with a script, read into the model's values (docs: scenario.md).

document   YAML text -> plain values that remember their line; refuses what could hurt
fields     typed readers over those values; every wrong value becomes a Problem
world, jobs, script   what the parts of a file mean
loader     the whole file -> Scenario, or one ScenarioError with every Problem
"""
