// The documents about problems, which the daemon fills with its table of codes.
import { keepPlainTheme } from './plain';
import './problems.css';

keepPlainTheme();
