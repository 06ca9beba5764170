"""Concept drift (CoD, section II.C): how much the groups of consecutive windows differ."""
