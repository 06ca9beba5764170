"""Approximation (SPEAr, Katsipoulakis 2020): mergeable samples of panes, and answers from them with known errors."""
