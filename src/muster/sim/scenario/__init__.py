"""Scenario files: a small world with a script, read into the model's values (docs: scenario.md).

muster.documents             YAML text -> values that remember their line; refuses what could hurt
problems                     what is wrong with a file, all of it together
scalars, fields              typed readers over those values; every wrong value becomes a Problem
nodes, pools, world, groups, races, jobs, script, timeline    what the parts of a file mean
loader                       the whole file -> scenario.Scenario, or one ScenarioError
"""
