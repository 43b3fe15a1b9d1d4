"""What two sides that never meet must say alike: a program and a function of ours, or a function and CloudFormation.

Standard library only, and nothing of Loadproof outside this folder: it is packed with the functions as it is.
"""
