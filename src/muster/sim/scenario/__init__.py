"""Scenario files: a small world with a script, read into the model's values (docs: scenario.md).

muster.documents             YAML text -> values that remember their line, typed readers over them, one job entry
problems                     what is wrong with a file, all of it together
nodes, pools, world, jobs, script, timeline    what the parts of a file mean
loader                       the whole file -> scenario.Scenario, or one ScenarioError
"""
