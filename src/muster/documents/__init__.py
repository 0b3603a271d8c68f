"""YAML files from people, read safely: values that remember their line, and all problems of a file together.

document, building, values   text -> values; refuses what could hurt before it does
problems                     what is wrong with a file: each with its key, its line and what is allowed
scalars, fields              typed readers over those values; every wrong value becomes a Problem
jobs                         what one job entry says
"""
