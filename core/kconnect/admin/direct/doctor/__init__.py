"""What is wrong with a cluster: `gathering` reads, the findings are pure, `diagnosis` puts them in order."""
